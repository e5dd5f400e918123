<?php
// Asks for each URL with file_get_contents. That it gives refusals, too, is set in the default context; with
// --own-context, in one of its own.
$settings = ['http' => ['ignore_errors' => true]];
stream_context_set_default($settings);
$urls = array_slice($argv, 1);
$context = null;
if ($urls[0] === '--own-context') {
    $urls = array_slice($urls, 1);
    $context = stream_context_create($settings);
}
foreach ($urls as $url) {
    $body = file_get_contents($url, false, $context);
    if ($body === false) {
        exit(1);
    }
    preg_match('~^HTTP/1\.\d (\d+)~', $http_response_header[0], $status);
    preg_match('~^Courtesy-Record: (.*)$~mi', implode("\n", $http_response_header), $record);
    printf("HTTP/1.1 %s\nCourtesy-Record: %s\n\n%s\n", $status[1], $record[1] ?? '', $body);
}
