package fetch_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/places"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/fetch"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

const most = 1 << 20

// fetcher may fetch from loopback, and from the given hosts without TLS.
func fetcher(t *testing.T, insecure ...string) *fetch.Fetcher {
	t.Helper()
	from, err := places.New("Wasm modules", "wasm", []string{"127.0.0.0/8"}, nil)
	require.NoError(t, err)
	return fetch.New(fetch.Options{Client: from.Client(nil), Unverified: from.Unverified(), Insecure: insecure, MaxSize: most})
}

// get fetches a module.
func get(t *testing.T, f *fetch.Fetcher, r fetch.Request) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	found, err := f.Find(ctx, r)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	digest, err := found.Save(ctx, &out)
	if err == nil {
		require.Equal(t, wasmtest.Digest(out.Bytes()), digest)
	}
	return out.Bytes(), err
}

func TestEveryFormOfAnImage(t *testing.T) {
	t.Parallel()
	r, module := wasmtest.NewRegistry(t), wasmtest.Empty("one")
	packed := wasmtest.Archive(t, [2]string{"readme", strings.Repeat("x", 5000)}, [2]string{"./plugin.wasm", string(module)}, [2]string{"last", "y"})
	digests := map[string]string{
		"artifact": r.Push(t, "a/artifact:v1", wasmtest.OCI, wasmtest.Layer{Type: "application/vnd.module.wasm.config.v1+json", Content: []byte("{}")}, wasmtest.Layer{Type: wasmtest.ModuleLayer, Content: module}),
		"cncf":     r.Push(t, "a/cncf:v1", wasmtest.OCI, wasmtest.Layer{Type: "application/wasm", Content: module}),
		"compat":   r.Push(t, "a/compat:v1", wasmtest.OCI, wasmtest.Layer{Type: wasmtest.OCILayer, Content: wasmtest.Archive(t, [2]string{"plugin.wasm", "old"})}, wasmtest.Layer{Type: wasmtest.OCILayer, Content: packed}),
		"docker":   r.Push(t, "a/docker:v1", wasmtest.Docker, wasmtest.Layer{Type: wasmtest.DockerLayer, Content: packed}),
	}
	inner := r.PushModule(t, "a/index:inner", module)
	manifest := map[string]any{"mediaType": wasmtest.OCI, "digest": "sha256:" + inner, "size": 1}
	digests["index"] = r.PutManifest(t, "a/index", "v1", wasmtest.OCIIndex, map[string]any{"schemaVersion": 2, "mediaType": wasmtest.OCIIndex, "manifests": []any{manifest}})
	f := fetcher(t, r.Host)
	for form, digest := range digests {
		at := "oci://" + r.Host + "/a/" + form
		for _, request := range []fetch.Request{{URL: at + ":v1"}, {URL: at + "@sha256:" + digest}, {URL: at + ":v1", Digest: digest}} {
			got, err := get(t, f, request)
			require.NoError(t, err, "%+v", request)
			require.Equal(t, module, got, "%+v", request)
		}
		_, err := get(t, f, fetch.Request{URL: at + ":v1", Digest: wasmtest.Digest([]byte("other"))})
		require.ErrorContains(t, err, "somebody replaced the module, or the plugin's sha256 is wrong")
		require.ErrorContains(t, err, digest)
	}
	_, err := get(t, f, fetch.Request{URL: "oci://" + r.Host + "/a/artifact:v1", Digest: wasmtest.Digest(module)})
	require.NoError(t, err, "the digest of the module itself is as good")
}

func TestBadImages(t *testing.T) {
	t.Parallel()
	r := wasmtest.NewRegistry(t)
	f := fetcher(t, r.Host)
	big := append(wasmtest.Empty("big"), bytes.Repeat([]byte{0}, most)...)
	for name, c := range map[string]struct {
		layers []wasmtest.Layer
		want   string
	}{
		"none":    {nil, "no layers"},
		"unknown": {[]wasmtest.Layer{{Type: "text/plain", Content: []byte("x")}}, `its last layer is of the type "text/plain"`},
		"without": {[]wasmtest.Layer{{Type: wasmtest.OCILayer, Content: wasmtest.Archive(t, [2]string{"other.wasm", "x"})}}, "no plugin.wasm in the archive"},
		"text":    {[]wasmtest.Layer{{Type: wasmtest.ModuleLayer, Content: []byte("hello")}}, "it is no Wasm module"},
		"big":     {[]wasmtest.Layer{{Type: wasmtest.ModuleLayer, Content: big}}, "--wasm-max-module-bytes allows"},
		"bomb":    {[]wasmtest.Layer{{Type: wasmtest.OCILayer, Content: wasmtest.Archive(t, [2]string{"plugin.wasm", string(big)})}}, "--wasm-max-module-bytes allows"},
		"torn":    {[]wasmtest.Layer{{Type: wasmtest.OCILayer, Content: wasmtest.Archive(t, [2]string{"plugin.wasm", "x"})[:20]}}, "EOF"},
	} {
		r.Push(t, "bad/"+name+":v1", wasmtest.OCI, c.layers...)
		_, err := get(t, f, fetch.Request{URL: "oci://" + r.Host + "/bad/" + name + ":v1"})
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := get(t, f, fetch.Request{URL: "oci://" + r.Host + "/bad/nobody:v1"})
	require.ErrorContains(t, err, "status 404: there is no such module")
	for _, url := range []string{"oci://" + r.Host + "/Upper:v1", "oci://" + r.Host + "/a:b c", "oci://" + r.Host + "/a@sha256:1", "oci://" + r.Host + "/../x"} {
		_, err := get(t, f, fetch.Request{URL: url})
		require.ErrorContains(t, err, "names no image", url)
	}
	_, err = get(t, f, fetch.Request{URL: "ftp://" + r.Host + "/a"})
	require.ErrorContains(t, err, "modules are not fetched by")
}

// A registry that sends something else than its manifest promised is found out.
func TestSwappedBlob(t *testing.T) {
	t.Parallel()
	r := wasmtest.NewRegistry(t)
	r.PushModule(t, "a:v1", wasmtest.Empty("right"))
	r.Before(func(w http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "/blobs/") {
			_, _ = w.Write(wasmtest.Empty("wrong"))
		}
	})
	_, err := get(t, fetcher(t, r.Host), fetch.Request{URL: "oci://" + r.Host + "/a:v1"})
	require.ErrorContains(t, err, "the registry sent something else than it promised")
}

// A registry without TLS is asked only if a flag has it.
func TestPlaintextIsForInsecureRegistries(t *testing.T) {
	t.Parallel()
	r := wasmtest.NewRegistry(t)
	r.PushModule(t, "a:v1", wasmtest.Empty("x"))
	_, err := get(t, fetcher(t), fetch.Request{URL: "oci://" + r.Host + "/a:v1"})
	require.ErrorContains(t, err, "HTTP response to HTTPS client")
	require.Zero(t, r.Asked("manifests"))
}

// login is a registry that wants a token, which a server of tokens gives for a password.
func login(t *testing.T, r *wasmtest.Registry) (tokens *httptest.Server) {
	t.Helper()
	tokens = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		name, password, _ := q.BasicAuth()
		if q.Method == http.MethodPost {
			name, password = "me", map[bool]string{true: "secret"}[q.FormValue("refresh_token") == "identity"]
		}
		if name != "me" || password != "secret" || q.FormValue("scope") != "repository:team/a:pull" || q.FormValue("service") != "the registry" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"access_token": "good"}`)
	}))
	t.Cleanup(tokens.Close)
	r.Before(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "Bearer good" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/token",service="the registry",scope="repository:team/a:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	return tokens
}

func TestPullSecrets(t *testing.T) {
	t.Parallel()
	r := wasmtest.NewRegistry(t)
	r.PushModule(t, "team/a:v1", wasmtest.Empty("x"))
	login(t, r)
	f := fetcher(t, r.Host)
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	for _, good := range []string{
		fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, r.Host, auth),
		fmt.Sprintf(`{"auths": {"https://%s/v1/": {"username": "me", "password": "secret"}}}`, r.Host),
		fmt.Sprintf(`{"auths": {%q: {"username": "you", "password": "x"}, %q: {"auth": %q}}}`, r.Host, r.Host+"/team", auth),
		fmt.Sprintf(`{"auths": {%q: {"registrytoken": "good"}}}`, r.Host),
		fmt.Sprintf(`{"auths": {%q: {"identitytoken": "identity"}}}`, r.Host),
	} {
		_, err := get(t, f, fetch.Request{URL: "oci://" + r.Host + "/team/a:v1", Credentials: good})
		require.NoError(t, err, good)
	}
	for bad, want := range map[string]string{
		"": "is the plugin's imagePullSecret right?",
		`{"auths": {"other.example": {"auth": "` + auth + `"}}}`:                          "is the plugin's imagePullSecret right?",
		fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, r.Host+"/tea", auth):                 "is the plugin's imagePullSecret right?",
		fmt.Sprintf(`{"auths": {%q: {"username": "me", "password": "hunter2"}}}`, r.Host): "is the plugin's imagePullSecret right?",
		`hunter2`: "the imagePullSecret cannot be read",
	} {
		_, err := get(t, f, fetch.Request{URL: "oci://" + r.Host + "/team/a:v1", Credentials: bad})
		require.ErrorContains(t, err, want, bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
	r.Before(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://169.254.169.254/latest"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	_, err := get(t, f, fetch.Request{URL: "oci://" + r.Host + "/team/a:v1"})
	require.ErrorContains(t, err, "the address 169.254.169.254 is not that of a single machine elsewhere, where Wasm modules are not fetched from")
	r.Before(func(w http.ResponseWriter, q *http.Request) {
		if name, password, _ := q.BasicAuth(); name != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	_, err = get(t, f, fetch.Request{URL: "oci://" + r.Host + "/team/a:v1", Credentials: fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, r.Host, auth)})
	require.NoError(t, err)
	_, err = get(t, f, fetch.Request{URL: "oci://" + r.Host + "/team/a:v1"})
	require.ErrorContains(t, err, "wants a password, and the plugin has no imagePullSecret for it")
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	module := wasmtest.Empty("one")
	zipped, archive := wasmtest.Compressed(t, module), wasmtest.Archive(t, [2]string{"any.name", string(module)}, [2]string{"second", "x"})
	bodies := map[string][]byte{"/module": module, "/gz": zipped, "/tgz": archive, "/twice": wasmtest.Compressed(t, zipped), "/text": []byte("<html>")}
	bodies["/deep"] = wasmtest.Compressed(t, wasmtest.Compressed(t, wasmtest.Compressed(t, bodies["/twice"])))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch body, is := bodies[q.URL.Path]; {
		case is:
			_, _ = w.Write(body)
		case q.URL.Path == "/endless":
			for _, _ = w.Write(module); q.Context().Err() == nil; {
				_, _ = w.Write(make([]byte, 1<<16))
			}
		case q.URL.Path == "/metadata":
			http.Redirect(w, q, "http://169.254.169.254/latest", http.StatusFound)
		case q.URL.Path == "/round":
			http.Redirect(w, q, "/round", http.StatusFound)
		case q.URL.Path == "/file":
			http.Redirect(w, q, "file:///etc/passwd", http.StatusFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	f := fetcher(t)
	for _, path := range []string{"/module", "/gz", "/tgz", "/twice"} {
		for _, digest := range []string{"", wasmtest.Digest(module), wasmtest.Digest(bodies[path])} {
			got, err := get(t, f, fetch.Request{URL: server.URL + path, Digest: digest})
			require.NoError(t, err, path)
			require.Equal(t, module, got)
		}
	}
	for path, want := range map[string]string{
		"/text": "it is no Wasm module, nor an archive of one", "/deep": "packed too many times", "/none": "answers with status 404",
		"/endless": "--wasm-max-module-bytes allows", "/metadata": "where Wasm modules are not fetched from unless --wasm-allow-addresses has it",
		"/round": "it redirects more than 3 times", "/file": "only http and https are allowed",
	} {
		_, err := get(t, f, fetch.Request{URL: server.URL + path})
		require.ErrorContains(t, err, want, path)
	}
	_, err := get(t, f, fetch.Request{URL: server.URL + "/gz", Digest: wasmtest.Digest([]byte("x"))})
	require.ErrorContains(t, err, "somebody replaced the module")
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for url, moving := range map[string]bool{
		"oci://r.example/a": true, "oci://r.example/a:latest": true, "oci://r.example/a:v1": false, "oci://r.example/a@sha256:" + wasmtest.Digest(nil): false,
		"oci://r.example:5000/a": true, "oci://docker.io/istio/a:v1": false, "https://r.example/latest": false, "oci://team/a": true,
	} {
		require.Equal(t, moving, fetch.Moving(url), url)
	}
}

// FuzzImage holds that whatever a registry answers is at most an error.
func FuzzImage(f *testing.F) {
	f.Add([]byte(`{"layers": [{"mediaType": "application/wasm", "digest": "sha256:`+wasmtest.Digest(nil)+`", "size": 1}]}`), []byte("\x1f\x8b"), `Bearer realm="http://127.0.0.1:1/",service=x`)
	f.Add([]byte(`{"manifests": [{"digest": "sha256:1"}]}`), wasmtest.Empty("x"), `Basic realm="x`)
	f.Fuzz(func(t *testing.T, manifest, blob []byte, challenge string) {
		answers := fetch.New(fetch.Options{Unverified: &http.Client{Transport: answering(func(q *http.Request) *http.Response {
			header, body, code := http.Header{}, manifest, http.StatusOK
			switch {
			case q.Header.Get("Authorization") == "" && challenge != "":
				header.Set("WWW-Authenticate", challenge)
				code = http.StatusUnauthorized
			case strings.Contains(q.URL.Path, "/blobs/"):
				body = blob
			}
			return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(body))}
		})}, Insecure: []string{"*"}, MaxSize: most})
		found, err := answers.Find(t.Context(), fetch.Request{URL: "oci://r.example/a", Credentials: `{"auths": {"r.example": {"auth": "eDp5"}}}`})
		if err == nil {
			_, _ = found.Save(t.Context(), io.Discard)
		}
	})
}

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(q *http.Request) (*http.Response, error) { return a(q), nil }
