# Asks for each URL with HTTP::Tiny, which verifies certificates only where it is asked to.
use strict;
use warnings;
use HTTP::Tiny;

my $client = HTTP::Tiny->new(timeout => 20, verify_SSL => 1);
for my $url (@ARGV) {
    my $answer = $client->get($url);
    # Its own failures are 599.
    die $answer->{content}, "\n" if $answer->{status} == 599;
    printf "HTTP/1.1 %d\nCourtesy-Record: %s\n\n%s\n", $answer->{status},
        $answer->{headers}{'courtesy-record'} // '', $answer->{content};
}
