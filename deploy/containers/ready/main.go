// Ready asks a server whether it is ready. It is the health check of images that have neither a
// shell nor curl. Its argument is the URL of the server's /readyz. The answer goes to standard
// output, where container engines look for it.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// timeout is shorter than that of the health checks, so that they record the reason.
const timeout = 2 * time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ready URL, such as http://127.0.0.1:15021/readyz")
		os.Exit(2)
	}
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	err := ask(ctx, os.Args[1], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ready:", err)
		os.Exit(1)
	}
}

func ask(ctx context.Context, url string, into io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // the URL is what this program is told
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(into, answer.Body); err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}
