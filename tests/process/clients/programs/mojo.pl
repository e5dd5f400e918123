# Asks for each URL with Mojo::UserAgent, as it comes.
use strict;
use warnings;
use Mojo::UserAgent;

my $client = Mojo::UserAgent->new;
for my $url (@ARGV) {
    my $answer = $client->get($url)->res;
    die $answer->error->{message}, "\n" unless $answer->code;
    printf "HTTP/1.1 %d\nCourtesy-Record: %s\n\n%s\n", $answer->code,
        $answer->headers->header('Courtesy-Record') // '', $answer->body;
}
