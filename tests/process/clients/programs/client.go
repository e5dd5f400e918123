// Asks for each URL with Go's default client.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	http.DefaultClient.Timeout = 20 * time.Second
	for _, url := range os.Args[1:] {
		answer, err := http.Get(url)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		record := answer.Header.Get("Courtesy-Record")
		fmt.Printf("%s %d\nCourtesy-Record: %s\n\n%s\n", answer.Proto, answer.StatusCode, record, body)
	}
}
