package run_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
)

// tokenServer gives each machine of the mesh a token with its name, by its certificate.
func tokenServer(t *testing.T) (server *httptest.Server, roots string) {
	t.Helper()
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if shown := r.TLS.PeerCertificates; len(shown) > 0 && len(shown[0].URIs) > 0 {
			who = shown[0].URIs[0].String()
		}
		fmt.Fprintf(w, `{"access_token":"of %s, %s, for %s","token_type":"Bearer","issued_token_type":"x","expires_in":60}`, who, r.FormValue("client_id"), r.FormValue("subject_token"))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert} // whose authority it is, is the mesh's business in this test
	server.StartTLS()
	t.Cleanup(server.Close)
	roots = filepath.Join(t.TempDir(), "roots.pem")
	certtest.WriteFile(t, roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return server, roots
}

func TestTokenExchange(t *testing.T) {
	t.Parallel()
	const cart = "spiffe://mesh.example/ns/shop/sa/cart"
	door := newDoorman()
	tokens, roots := tokenServer(t)
	exchange := []string{"--sts-upstream", tokens.URL, "--sts-roots", roots, "--sts-listen", "127.0.0.1:0", "--status", ""}

	d := jointest.New(t, "mesh.example", time.Hour, door.register)
	joined := agenttest.StartSecure(t, append(exchange, "--discovery", d.Address, "--state-dir", agenttest.ShortFolder(t),
		"--token-file", agenttest.TokenFile(t, d.Token("shop", "cart", 1, 0).Text()))...)

	pki, folder := certtest.NewAuthority(t), agenttest.ShortFolder(t)
	cert, key := pki.Issue(nil, cart).Write(t, folder)
	own := filepath.Join(folder, "roots.pem")
	certtest.WriteFile(t, own, pki.PEM)
	address := door.serveWith(t, pki.Issue(nil, "spiffe://mesh.example/pgmesh/discovery/a").Certificate(t), pki.Pool())
	files := agenttest.StartSecure(t, append(exchange, "--discovery", address, "--state-dir", folder, "--tls-cert", cert, "--tls-key", key, "--tls-roots", own)...)

	for _, a := range []*agenttest.Proc{joined, files} {
		line := a.Await(t, "exchanging tokens")
		_, at, _ := strings.Cut(line, "address=")
		at, _, _ = strings.Cut(at, " ")
		response, err := http.PostForm("http://"+at+"/token", url.Values{
			"grant_type":    {"urn:ietf:params:oauth:grant-type:token-exchange"},
			"subject_token": {"me"}, "subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"},
		})
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), "of "+cart+", "+cart+", for me")

		a.End(t)
	}
}

func TestInvalidExchangeFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"where are tokens exchanged? Say it with --sts-upstream":         {"run", "--insecure", "--discovery", "127.0.0.1:1", "--sts-client-id", "x"},
		"--sts-upstream: expected the URL of a token endpoint, by https": {"run", "--insecure", "--discovery", "127.0.0.1:1", "--sts-upstream", "tokens.example"},
		"--sts-roots /dev/null: there is no certificate in it":           {"run", "--insecure", "--discovery", "127.0.0.1:1", "--sts-upstream", "https://tokens.example", "--sts-roots", "/dev/null"},
	} {
		output, err := agenttest.Run(t, nil, args...)
		require.Error(t, err)
		require.Contains(t, output, want)
	}
}
