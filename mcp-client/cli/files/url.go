package files

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Bounds of what is read from a URL.
const (
	downloadTimeout = 30 * time.Second
	mostDownloaded  = 64 << 20
)

func isURL(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")
}

// download reads what a URL has.
func download(url string) ([]byte, error) {
	client := http.Client{Timeout: downloadTimeout}
	resp, err := client.Get(url) //nolint:noctx // bounded by the timeout
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the server answers %s", url, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostDownloaded+1))
	if err == nil && len(data) > mostDownloaded {
		err = fmt.Errorf("%s: it has more than %d MiB", url, mostDownloaded>>20)
	}
	return data, err
}
