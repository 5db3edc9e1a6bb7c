package envoy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

var update = flag.Bool("update", false, "write stock.txt and extensions.go by what the real Envoy has")

// absent lists types that Envoy has but the Go packages of its API do not, so nobody can configure
// them here.
var absent = []string{}

func TestStockListMatchesEnvoy(t *testing.T) {
	t.Parallel()
	e := envoytest.Start(t, &bootstrapv3.Bootstrap{})
	var info struct {
		Node struct {
			Extensions []struct {
				Category string
				TypeURLs []string `json:"type_urls"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(e.Get(t, "/server_info")), &info))
	var lines []string
	for _, extension := range info.Node.Extensions {
		for _, name := range extension.TypeURLs {
			lines = append(lines, extension.Category+" "+name+"\n")
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	require.NotEmpty(t, lines)
	if *update {
		require.NoError(t, os.WriteFile("stock.txt", []byte(strings.Join(lines, "")), 0o644))
		require.NoError(t, os.WriteFile("stock.txt.gz", compressed(t, strings.Join(lines, "")), 0o644))
		require.NoError(t, os.WriteFile("extensions.go", imports(t, lines), 0o644))
	}
	written, err := os.ReadFile("stock.txt")
	require.NoError(t, err)
	require.Equal(t, strings.Join(lines, ""), string(written), "run the test with -update: this is another Envoy")
}

// What programs have is the list that people read.
func TestTheCompressedListIsTheSame(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile("stock.txt")
	require.NoError(t, err)
	packed, err := os.ReadFile("stock.txt.gz")
	require.NoError(t, err)
	text, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	read, err := io.ReadAll(text)
	require.NoError(t, err)
	require.Equal(t, string(written), string(read), "run TestStockListMatchesEnvoy with -update")
}

func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// Every type that Envoy has must be decodable.
func TestEveryStockTypeIsLinked(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile("stock.txt")
	require.NoError(t, err)
	var unknown []string
	for line := range strings.Lines(string(written)) {
		name := strings.Fields(line)[1]
		if _, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name)); err != nil {
			unknown = append(unknown, name)
		}
	}
	require.Equal(t, absent, append([]string{}, unknown...))
}

// imports writes the file that links the packages of all types.
func imports(t *testing.T, lines []string) []byte {
	t.Helper()
	const module = "github.com/envoyproxy/go-control-plane/envoy"
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	require.NoError(t, err)
	packages := []string{
		"github.com/cncf/xds/go/udpa/type/v1", // structs that name their type: most samples for Istio have them
		"github.com/cncf/xds/go/xds/type/matcher/v3",
		"github.com/cncf/xds/go/xds/type/v3",
	}
	for _, line := range lines {
		below, ours := strings.CutPrefix(path.Dir(strings.ReplaceAll(strings.Fields(line)[1], ".", "/")), "envoy")
		if _, err := os.Stat(strings.TrimSpace(string(folder)) + below); ours && err == nil {
			packages = append(packages, module+below)
		}
	}
	slices.Sort(packages)
	var b bytes.Buffer
	b.WriteString("package envoy\n\nimport (\n")
	b.WriteString("\t// All that a stock Envoy can be configured with: what is linked can be read. Written by the test of stock.txt with -update.\n")
	for _, p := range slices.Compact(packages) {
		fmt.Fprintf(&b, "\t_ %q\n", p)
	}
	b.WriteString(")\n")
	return b.Bytes()
}

// text formats a message the same way each time, unlike prototext.
func text(m proto.Message) string {
	return strings.ReplaceAll(prototext.MarshalOptions{}.Format(m), "  ", " ")
}
