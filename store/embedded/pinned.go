package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
)

// repository is where the builds are published.
const repository = "https://repo1.maven.org/maven2"

// digests are the SHA-256 of the published files, by platform and version. The repository's own
// digests prove nothing about the repository. A file cannot be replaced there once it is published.
var digests = map[string]string{
	"darwin-amd64-14.18.0":       "0e4764346ad227223e7ea0d679e508067e5809cf640a5146c1d3d701db90941c",
	"darwin-amd64-15.13.0":       "1befcdf1f4ef59aaac5efbff997de798984f7a03ab1fb6b32771fbfb21178dc5",
	"darwin-amd64-16.9.0":        "0be7111599308e8a670ae72e9512a4b902dabe3e2e0cda0539a0447a5bdacb26",
	"darwin-amd64-17.5.0":        "fb70f783928e77c3d6ef5ca8ed644f1ac502f740fcfc032a375c8347820f2bdd",
	"darwin-amd64-18.3.0":        "cb68c57232945f5e74db946e6077d70cec56bfed35959b21acc750cc80ca0977",
	"darwin-arm64v8-16.9.0":      "53b2672c602e16e4c94fb56b9aa68cc26a0bbb0df851f256f41a2cdbeccc9cb6",
	"darwin-arm64v8-17.5.0":      "e9d3398e10c2ec926395498b03e75ad1a24eeaed82895e756a7e173b202cf6de",
	"darwin-arm64v8-18.3.0":      "a18ec9ec6a905e04f5a08a8f7870bddadd635feb54dee332a3daf80fada3cb1a",
	"linux-amd64-13.23.0":        "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2",
	"linux-amd64-14.18.0":        "d08a4c4703faf3f78ed74af72f1794d32ad3798f7dedf46abd383f809a99262b",
	"linux-amd64-15.13.0":        "cc0177d8a22b85ed266f6204c0642fd5c24ab583d1ef221d4b60bce29d4fa4ef",
	"linux-amd64-16.9.0":         "d983cee24678490199e1684d6a93f49f84673696cb6f0db64e880a4cf233017b",
	"linux-amd64-17.5.0":         "646f3269075d1a23904127374e3cdbcef96beb32979fedee25d835877400fcbe",
	"linux-amd64-18.3.0":         "1974c3a59c3ae010e9818e81637e425aad94eaac26e4ef533b42e081fe7ca345",
	"linux-amd64-alpine-14.18.0": "c714033647d894b90f146aa24aad13d54a4851f76cdc3903e33807024614d449",
	"linux-amd64-alpine-15.13.0": "73c825eba923c8faa8059a5f9af7d20c9800b7feba901110fdc3487400905a80",
	"linux-amd64-alpine-16.9.0":  "2a82d0d9266d46976be463ecf76b89f72e614d867e26b7fe8cf038fe7e05f075",
	"linux-amd64-alpine-17.5.0":  "7122386c7f7a089568f05720ada63448093d4065abbc0a89e6dc660851a53e3c",
	"linux-amd64-alpine-18.3.0":  "510fd314da39f1eeccef774a92428474168fedf55403342548e2adeaed66b483",
	"linux-arm64v8-16.9.0":       "9d113402f70f4d134250916319ad83e87cba3796bd73a606c28dbabd326b4fa3",
	"linux-arm64v8-17.5.0":       "e02f27ff50ff2d90b6541d54f3f108505aacd84ea53c2890e976a684bfea2752",
	"linux-arm64v8-18.3.0":       "1fb555a6602c13a113ab1f0cc9224d599948e85e51ac5f001393605505eaf78e",
}

// maxBuildBytes bounds the size of a build.
const maxBuildBytes = 256 << 20

// pinned serves builds to this program on loopback if their digests are known. The library that
// unpacks them cannot be given a digest.
type pinned struct {
	repository string
	server     *http.Server
	url        string
	refused    error // why the last build was refused; read it after the server has ended
}

func servePinned(repository string) (*pinned, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &pinned{repository: repository, url: "http://" + l.Addr().String()}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// end stops the server, and returns why a build was refused.
func (p *pinned) end() error {
	_ = p.server.Shutdown(context.Background())
	return p.refused
}

func (p *pinned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, ".jar") { // the repository's own digest, which is not asked for
		http.NotFound(w, r)
		return
	}
	build, err := p.build(r.Context(), r.URL.Path)
	if err != nil {
		p.refused = err
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_, _ = w.Write(build) //nolint:gosec // it is what its digest says, and goes to no browser
}

// build downloads a build, and returns it if its digest is right.
func (p *pinned) build(ctx context.Context, file string) ([]byte, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(path.Base(file), "embedded-postgres-binaries-"), ".jar")
	want, known := digests[name]
	if !known {
		return nil, fmt.Errorf("there is no build %s to download", name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.repository+file, nil) //nolint:gosec // the file has the name of one that we know
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // likewise
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", req.URL.Redacted(), resp.Status)
	}
	build, err := io.ReadAll(io.LimitReader(resp.Body, maxBuildBytes))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(build)
	if got := hex.EncodeToString(sum[:]); got != want {
		return nil, fmt.Errorf("%s has sha256 %s, expected %s; nothing was installed. Is a proxy or a mirror changing downloads?", path.Base(file), got, want)
	}
	return build, nil
}
