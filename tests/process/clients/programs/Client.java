import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;

/** Asks for each URL with Java's own client, as it comes. */
public class Client {
    public static void main(String[] urls) throws Exception {
        var client = HttpClient.newHttpClient();
        for (var url : urls) {
            var request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(20)).build();
            var answer = client.send(request, BodyHandlers.ofString());
            var version = answer.version() == HttpClient.Version.HTTP_2 ? "HTTP/2" : "HTTP/1.1";
            var record = answer.headers().firstValue("Courtesy-Record").orElse("");
            System.out.printf("%s %d%nCourtesy-Record: %s%n%n%s%n", version, answer.statusCode(), record, answer.body());
        }
    }
}
