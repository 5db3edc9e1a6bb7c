package jwks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// unusable is the error for a document that is no use. It does not quote the document, which may
// come from a place that only discovery can reach.
type unusable struct {
	url string
	why error
}

func (u unusable) Error() string {
	return fmt.Sprintf("what %s answers is of no use: %v", shownURL(u.url), u.why)
}

// shownURL is a URL without the parts that may be secret.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an address that is no URL"
	}
	return u.Redacted()
}

// authorities returns the system's, with those in a file if one is named. Nil means the system's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	more, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--jwks-ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(more) {
		return nil, fmt.Errorf("--jwks-ca: %s has no certificate: write PEM, which begins with -----BEGIN CERTIFICATE-----", file)
	}
	return pool, nil
}

const (
	mostRedirects = 3
	mostHeaders   = 1 << 16 // bytes
	leastTLS      = tls.VersionTLS12
)

// newClient returns a client that connects only where it may. It judges each connection by the
// address that it is about to connect to, so that neither a redirect nor a changed DNS answer leads
// elsewhere. It ignores proxies of the environment, which would connect in its place.
func newClient(p places, authorities *x509.CertPool) *http.Client {
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return p.judge(address) }}
	return &http.Client{
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > mostRedirects {
				return fmt.Errorf("it redirects more than %d times", mostRedirects)
			}
			return mayFollow(via[len(via)-1].URL, next.URL)
		},
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: mostHeaders,
			TLSClientConfig: &tls.Config{MinVersion: leastTLS, RootCAs: authorities},
		},
	}
}

// mayFollow allows no other protocols, and no redirect from TLS to plaintext.
func mayFollow(from, to *url.URL) error {
	switch {
	case to.Scheme != "http" && to.Scheme != "https":
		return fmt.Errorf("it leads to a URL of %q, and only http and https are allowed", to.Scheme)
	case from.Scheme == "https" && to.Scheme == "http":
		return errors.New("it leads from https to http")
	default:
		return nil
	}
}

// get fetches a document.
func (k *Keeper) get(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s has no host", shownURL(address))
	}
	if err := mayFollow(u, u); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%s is no URL that can be asked", shownURL(address))
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	request.Header.Set("User-Agent", "pgmesh-discovery")
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, unusable{address, fmt.Errorf("the status is %d", response.StatusCode)}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, k.options.MaxSize+1))
	if err == nil && int64(len(body)) > k.options.MaxSize {
		err = unusable{address, fmt.Errorf("it has more than %d bytes, which is what --jwks-max-size allows", k.options.MaxSize)}
	}
	return body, err
}

const openID = "/.well-known/openid-configuration"

// discover asks an issuer where its keys are (OpenID Connect Discovery 1.0).
func (k *Keeper) discover(ctx context.Context, issuer string) (string, error) {
	address := strings.TrimSuffix(issuer, "/") + openID
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("the issuer %q is no URL that could be asked where its keys are: write jwksUri or jwks", issuer)
	}
	body, err := k.get(ctx, address)
	if err != nil {
		return "", err
	}
	var about struct {
		Keys string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &about); err != nil || about.Keys == "" {
		return "", unusable{address, errors.New("it has no jwks_uri")}
	}
	from, err := url.Parse(address)
	to, wrong := url.Parse(about.Keys)
	if err != nil || wrong != nil {
		return "", unusable{address, errors.New("its jwks_uri is no URL")}
	}
	if err := mayFollow(from, to); err != nil {
		return "", unusable{address, fmt.Errorf("its jwks_uri cannot be followed: %w", err)}
	}
	return about.Keys, nil
}

// metadata are addresses at which clouds give machines their credentials, and which are not
// link-local.
var metadata = prefixes("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128")

// translators are prefixes of IPv6 addresses that end in an IPv4 address.
var translators = prefixes("64:ff9b::/96")

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// places says where keys may be fetched from.
type places struct{ allowed, refused []netip.Prefix }

func newPlaces(allowed, refused []string) (p places, err error) {
	if p.allowed, err = parsePrefixes("jwks-allow-addresses", allowed); err == nil {
		p.refused, err = parsePrefixes("jwks-refuse-addresses", refused)
	}
	return p, err
}

func parsePrefixes(flag string, texts []string) (out []netip.Prefix, err error) {
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if ip, single := netip.ParseAddr(text); single == nil {
			prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is no range of addresses: write it as 10.0.0.0/8", flag, text)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// judge reports why no connection may be made to an address and port; nil if one may.
func (p places) judge(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s is no address", address)
	}
	ip := at.Addr().Unmap().WithZone("")
	if within(translators, ip) {
		sixteen := ip.As16()
		ip, _ = netip.AddrFromSlice(sixteen[12:])
	}
	var what string
	switch {
	case within(p.refused, ip):
		return fmt.Errorf("the address %s is one that --jwks-refuse-addresses refuses", ip)
	case within(p.allowed, ip):
		return nil
	case ip.IsLoopback():
		what = "loopback"
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		what = "not that of a single machine elsewhere"
	case within(metadata, ip):
		what = "at which clouds serve metadata"
	default:
		return nil
	}
	return fmt.Errorf("the address %s is %s, where keys are not fetched from unless --jwks-allow-addresses has it", ip, what)
}

// reasonOf says why an attempt failed. It leaves out the local port, so that the same failure has
// the same text.
func reasonOf(err error, timeout time.Duration) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("there is no answer within %s", timeout)
	}
	prefix := ""
	if about, ok := errors.AsType[*url.Error](err); ok {
		prefix, err = shownURL(about.URL)+": ", about.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return prefix + fmt.Sprintf("the name %s: %s", dns.Name, dns.Err)
	}
	return prefix + err.Error()
}
