package places

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

const (
	mostRedirects = 3
	mostHeaders   = 1 << 16 // bytes
	leastTLS      = tls.VersionTLS12
)

// Client returns a client that connects only where it may. It judges each connection by the address
// that it is about to connect to, so that neither a redirect nor a changed DNS answer leads
// elsewhere. It ignores proxies of the environment, which would connect in its place. Without
// authorities it trusts those of the system.
func (p Places) Client(authorities *x509.CertPool) *http.Client {
	return p.client(&tls.Config{MinVersion: leastTLS, RootCAs: authorities})
}

// Unverified returns a client that believes any certificate. It connects where Client's does.
func (p Places) Unverified() *http.Client {
	return p.client(&tls.Config{MinVersion: leastTLS, InsecureSkipVerify: true}) //nolint:gosec // whoever calls this was told to
}

func (p Places) client(security *tls.Config) *http.Client {
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return p.Judge(address) }}
	return &http.Client{
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > mostRedirects {
				return fmt.Errorf("it redirects more than %d times", mostRedirects)
			}
			return MayFollow(via[len(via)-1].URL, next.URL)
		},
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: mostHeaders,
			TLSClientConfig: security,
		},
	}
}

// MayFollow allows no other protocols than http and https, and no way from TLS to plaintext.
func MayFollow(from, to *url.URL) error {
	switch {
	case to.Scheme != "http" && to.Scheme != "https":
		return fmt.Errorf("it leads to a URL of %q, and only http and https are allowed", to.Scheme)
	case from.Scheme == "https" && to.Scheme == "http":
		return errors.New("it leads from https to http")
	default:
		return nil
	}
}

// authorities returns the system's, with those in the file that a flag names. Nil means the
// system's alone.
func authorities(flag, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	more, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(more) {
		return nil, fmt.Errorf("--%s: %s has no certificate: write PEM, which begins with -----BEGIN CERTIFICATE-----", flag, file)
	}
	return pool, nil
}

// Shown is a URL without the parts that may be secret.
func Shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an address that is no URL"
	}
	return u.Redacted()
}

// Reason says why an attempt failed. It leaves out the local port, so that the same failure has the
// same text.
func Reason(err error, timeout time.Duration) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("there is no answer within %s", timeout)
	}
	prefix := ""
	if about, ok := errors.AsType[*url.Error](err); ok {
		prefix, err = Shown(about.URL)+": ", about.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return prefix + fmt.Sprintf("the name %s: %s", dns.Name, dns.Err)
	}
	return prefix + err.Error()
}
