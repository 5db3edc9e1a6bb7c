package traces

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/grpc"
)

// Usage says what an endpoint is, for the help of a flag.
const Usage = "grpc://HOST:4317 or grpcs://HOST:4317 for OTLP over gRPC, http://HOST:4318 or https://HOST:4318 for OTLP over HTTP; " +
	"grpc: or http: alone go where OTEL_EXPORTER_OTLP_ENDPOINT says"

const (
	// sendWithin is how long a batch may take, with all attempts.
	sendWithin = 10 * time.Second
	// firstPause and longestPause lie between the attempts.
	firstPause, longestPause = 250 * time.Millisecond, 2 * time.Second

	grpcPort, httpPort, httpPath = "4317", "4318", "/v1/traces"
)

var errEndpoint = errors.New("where to send traces is " + Usage)

// exporter returns what sends spans to an endpoint. What an endpoint does not say, such as headers
// and certificates, is in OpenTelemetry's own variables.
func exporter(endpoint string, by *net.Dialer) (*otlptrace.Exporter, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" && (u.Opaque != "" || u.Path != "") {
		return nil, errEndpoint
	}
	ctx := context.Background() // neither waits for the collector
	switch u.Scheme {
	case "grpc", "grpcs":
		if u.Path != "" {
			return nil, errEndpoint
		}
		return otlptrace.New(ctx, otlptracegrpc.NewClient(overGRPC(u, by)...))
	case "http", "https":
		return otlptrace.New(ctx, otlptracehttp.NewClient(overHTTP(u, by)...))
	}
	return nil, errEndpoint
}

func overGRPC(u *url.URL, by *net.Dialer) []otlptracegrpc.Option {
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithTimeout(sendWithin),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: sendWithin}),
	}
	if by != nil {
		options = append(options, otlptracegrpc.WithDialOption(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return by.DialContext(ctx, "tcp", address)
		})))
	}
	if u.Host == "" {
		return options
	}
	options = append(options, otlptracegrpc.WithEndpoint(withPort(u, grpcPort)))
	if u.Scheme == "grpc" {
		options = append(options, otlptracegrpc.WithInsecure())
	}
	return options
}

func overHTTP(u *url.URL, by *net.Dialer) []otlptracehttp.Option {
	options := []otlptracehttp.Option{
		otlptracehttp.WithTimeout(sendWithin),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: sendWithin}),
	}
	if by != nil { // the client that is given takes the place of one with certificates of the environment
		transport := &http.Transport{DialContext: by.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: sendWithin, IdleConnTimeout: time.Minute}
		options = append(options, otlptracehttp.WithHTTPClient(&http.Client{Transport: transport, Timeout: sendWithin}))
	}
	if u.Host == "" {
		return options
	}
	to := url.URL{Scheme: u.Scheme, Host: withPort(u, httpPort), Path: u.Path}
	if strings.Trim(to.Path, "/") == "" {
		to.Path = httpPath
	}
	return append(options, otlptracehttp.WithEndpointURL(to.String()))
}

func withPort(u *url.URL, port string) string {
	if u.Port() != "" {
		return u.Host
	}
	return strings.TrimSuffix(u.Host, ":") + ":" + port
}
