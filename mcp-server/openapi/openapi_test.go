package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	"github.com/pb33f/libopenapi/datamodel"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/jsonschema"
	"github.com/pgmesh/pgmesh/mcp-server/openapi"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// parsed is the document as a parser of OpenAPI understands it.
func parsed(t *testing.T) v3.Document {
	t.Helper()
	text, err := openapi.Document()
	require.NoError(t, err)
	document, err := libopenapi.NewDocumentWithConfiguration(text, &datamodel.DocumentConfiguration{SkipExternalRefResolution: true})
	require.NoError(t, err)
	require.Equal(t, "3.1.0", document.GetVersion())
	model, err := document.BuildV3Model()
	require.NoError(t, err)
	return model.Model
}

func TestEveryCallIsDescribed(t *testing.T) {
	t.Parallel()
	calls, model := map[string]bool{}, parsed(t)
	for path, item := range model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			require.False(t, calls[operation.OperationId], "%s is there twice", operation.OperationId)
			calls[operation.OperationId] = true
			inPath := 0
			for _, p := range operation.Parameters {
				require.NotNil(t, p.Schema, "%s %s: %s", method, path, p.Name)
				if p.In == "path" {
					require.Contains(t, path, "{"+p.Name+"}")
					inPath++
				}
			}
			require.Equal(t, strings.Count(path, "{"), inPath, path)
			require.NotNil(t, operation.Responses.Codes.GetOrZero("200"), path)
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage(adminv1.File_pgmesh_admin_v1_admin_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				call := f.Services().Get(i).Methods().Get(j)
				if strings.Contains(adminv1.Paths, "selector: "+string(call.FullName())+"\n") {
					require.True(t, calls[string(call.Parent().Name())+"_"+string(call.Name())], "%s is not described", call.FullName())
				}
			}
		}
		return true
	})
	require.Greater(t, len(calls), 60)
}

func TestWhatIsSaidOfACall(t *testing.T) {
	t.Parallel()
	model := parsed(t)
	history := model.Paths.PathItems.GetOrZero("/v1/history/{kinds}/{namespaces}/{names}").Get
	require.Equal(t, "History", history.Summary)
	var names []string
	for _, p := range history.Parameters {
		names = append(names, p.In+" "+p.Name)
	}
	require.Equal(t, []string{
		"path kinds", "path namespaces", "path names", "query author", "query message", "query since", "query until", "query revision", "query documents",
		"query pageSize", "query pageToken", "query withoutMachines",
	}, names)
	apply := model.Paths.PathItems.GetOrZero("/v1/resources").Post
	require.NotNil(t, apply.RequestBody.Content.GetOrZero("application/yaml"))
	revision := model.Components.Schemas.GetOrZero("Revision").Schema()
	require.Equal(t, []string{"string"}, revision.Properties.GetOrZero("revision").Schema().Type)
	require.Equal(t, "date-time", revision.Properties.GetOrZero("time").Schema().Format)
}

// What the .proto files say of calls, messages and fields is in the document: at each call, and at
// references to messages too.
func TestCommentsAreDescriptions(t *testing.T) {
	t.Parallel()
	model := parsed(t)
	for path, item := range model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			require.NotEmpty(t, operation.Description, "%s %s: its call has no comment", method, path)
		}
	}
	applied := model.Components.Schemas.GetOrZero("ApplyRequest")
	require.Nil(t, applied, "its documents are the body, its other fields the query")
	dryRun := ""
	for _, p := range model.Paths.PathItems.GetOrZero("/v1/resources").Post.Parameters {
		if p.Name == "dryRun" {
			dryRun = p.Schema.Schema().Description
		}
	}
	require.Equal(t, "Check everything, store nothing.", dryRun)
	require.NotEmpty(t, model.Components.Schemas.GetOrZero("Problem").Schema().Description)
	for _, tag := range model.Tags {
		require.Contains(t, tag.Description, "How calls fail", "the tag %s", tag.Name)
	}
}

// What the document refers to is served beside it, to everybody.
func TestWhatIsServed(t *testing.T) {
	t.Parallel()
	get := func(path string) (int, string, string) {
		t.Helper()
		require.True(t, openapi.Serves(path))
		w := httptest.NewRecorder()
		openapi.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String(), w.Header().Get("Content-Type")
	}
	code, text, kind := get("/openapi.json")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "application/vnd.oai.openapi+json;version=3.1", kind)
	var document struct {
		Components struct {
			Schemas map[string]struct {
				AnyOf []map[string]string
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &document))
	all := document.Components.Schemas["Resource"].AnyOf
	require.Len(t, all, len(kinds.All()))
	for _, one := range all {
		code, schema, kind := get("/" + one["$ref"])
		require.Equal(t, http.StatusOK, code, one)
		require.Equal(t, "application/schema+json", kind)
		require.True(t, json.Valid([]byte(schema)))
	}
	code, text, _ = get("/schemas/" + jsonschema.AllPath)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, string(jsonschema.All()), text)
	_, byPath, _ := get("/schemas/networking.istio.io/virtualservice_v1.json")
	_, byName, _ := get("/schemas/vs.json")
	require.Equal(t, byPath, byName)
	code, text, _ = get("/schemas/nothing.json")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, "there is no schema nothing.json")

	w := httptest.NewRecorder()
	openapi.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/openapi.json", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.False(t, openapi.Serves("/v1/resources"))
}
