# Asks for each URL with LWP::UserAgent, as it comes.
use strict;
use warnings;
use LWP::UserAgent;

my $client = LWP::UserAgent->new(timeout => 20);
for my $url (@ARGV) {
    my $answer = $client->get($url);
    die $answer->status_line, "\n" if ($answer->header('Client-Warning') // '') eq 'Internal response';
    printf "HTTP/1.1 %d\nCourtesy-Record: %s\n\n%s\n", $answer->code, $answer->header('Courtesy-Record') // '',
        $answer->decoded_content;
}
