/* Asks for each URL by HTTP, with nothing but a C library. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int get(const char *url)
{
    char host[256], path[1024], request[1500], part[4096];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (sscanf(url, "http://%255[^/]%1023s", host, path) != 2)
        return fprintf(stderr, "%s is not http\n", url);
    int error = getaddrinfo(host, "80", &hints, &found);
    if (error)
        return fprintf(stderr, "%s: %s\n", host, gai_strerror(error));
    int stream = socket(found->ai_family, found->ai_socktype, 0);
    if (stream < 0 || connect(stream, found->ai_addr, found->ai_addrlen))
        return perror(host), 1;
    freeaddrinfo(found);
    int length = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host);
    if (write(stream, request, length) != length)
        return perror("write"), 1;
    for (ssize_t count; (count = read(stream, part, sizeof part)) > 0;)
        fwrite(part, 1, count, stdout);
    puts("");
    return close(stream);
}

int main(int count, char **urls)
{
    int failed = 0;
    for (int at = 1; at < count; at++)
        failed |= get(urls[at]) != 0;
    return failed;
}
