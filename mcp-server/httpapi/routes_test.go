package httpapi_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// withoutPath are the calls that gRPC alone has.
var withoutPath = map[string]string{
	"AdminService.Import":       "its client sends portions",
	"AdminService.Export":       "it is for mcp-client; people ask for lists",
	"SecretService.ListSecrets": "it is for mcp-client",
}

// Every call has a path, which the page of the API tells of, and every service that has one is
// served.
func TestEveryCallHasAPath(t *testing.T) {
	t.Parallel()
	paths, served, told := text(t, "../../proto/pgmesh/admin/v1/http.yaml"), text(t, "httpapi.go"), text(t, page)
	calls := 0
	protoregistry.GlobalFiles.RangeFilesByPackage(adminv1.File_pgmesh_admin_v1_admin_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			for j := range service.Methods().Len() {
				call := string(service.Name() + "." + service.Methods().Get(j).Name())
				if withoutPath[call] != "" {
					continue
				}
				calls++
				found := regexp.MustCompile(`selector: pgmesh\.admin\.v1\.` + regexp.QuoteMeta(call) + `\n +\w+: (\S+)`).FindStringSubmatch(paths)
				require.NotNil(t, found, "%s has no path: write it into proto/pgmesh/admin/v1/http.yaml, and run make generate", call)
				require.Contains(t, served, "Register"+string(service.Name())+"HandlerClient(", "%s is not served: register it in mcp-server/httpapi/httpapi.go", call)
				stem, _, _ := strings.Cut(found[1], "{")
				require.Contains(t, told, stem, "%s is not in docs/admin-api.md", call)
			}
		}
		return true
	})
	require.Greater(t, calls, 40, "the calls are not found any more")
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}
