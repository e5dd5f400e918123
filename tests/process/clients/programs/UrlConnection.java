import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;

/** Asks for each URL with the client that every Java has had from the beginning. */
public class UrlConnection {
    public static void main(String[] urls) throws Exception {
        for (var url : urls) {
            var connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
            connection.setReadTimeout(20_000);
            var status = connection.getResponseCode();
            try (var body = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
                var record = connection.getHeaderField("Courtesy-Record");
                var text = new String(body.readAllBytes(), StandardCharsets.UTF_8);
                System.out.printf("HTTP/1.1 %d%nCourtesy-Record: %s%n%n%s%n", status, record == null ? "" : record, text);
            }
        }
    }
}
