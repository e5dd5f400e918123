<?php
// Asks for each URL with PHP's curl.
foreach (array_slice($argv, 1) as $url) {
    $curl = curl_init($url);
    $record = '';
    curl_setopt_array($curl, [
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 20,
        CURLOPT_USERAGENT => 'php-test',
        CURLOPT_HEADERFUNCTION => function ($curl, $line) use (&$record) {
            if (stripos($line, 'Courtesy-Record: ') === 0) {
                $record = trim(substr($line, 17));
            }
            return strlen($line);
        },
    ]);
    $body = curl_exec($curl);
    if ($body === false) {
        fwrite(STDERR, curl_error($curl) . "\n");
        exit(1);
    }
    printf("HTTP/1.1 %d\nCourtesy-Record: %s\n\n%s\n", curl_getinfo($curl, CURLINFO_HTTP_CODE), $record, $body);
}
