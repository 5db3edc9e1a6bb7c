package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pgmesh/pgmesh/internal/caller"
	accessv1 "github.com/pgmesh/pgmesh/proto/pgmesh/access/v1"
	_ "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	_ "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	_ "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
	_ "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// The table is as new as the .proto files, and each RPC says who may call it.
func TestTheTableSaysWhatTheProtosSay(t *testing.T) {
	t.Parallel()
	found := map[string]rule{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				if name := fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(j).Name()); strings.HasPrefix(name, "/pgmesh.") {
					found[name] = declaredBy(service.Methods().Get(j))
					require.NotNil(t, found[name], "%s does not say who may call it", name)
				}
			}
		}
		return true
	})
	require.Equal(t, found, declared, "run make generate")
	require.Greater(t, len(declared), 50)
}

func declaredBy(method protoreflect.MethodDescriptor) rule {
	verbs := map[accessv1.Verb]caller.Verb{1: caller.Read, 2: caller.Write, 3: caller.Admin, 4: caller.Secrets, 5: caller.Sign, 6: caller.Register}
	option, _ := proto.GetExtension(method.Options(), accessv1.E_Access).(*accessv1.Access)
	switch r := option.GetRule().(type) {
	case *accessv1.Access_Unlimited:
		return unlimited(verbs[r.Unlimited])
	case *accessv1.Access_Narrowed:
		return narrowed(verbs[r.Narrowed])
	case *accessv1.Access_OpenTo:
		return map[accessv1.Group]openTo{1: known, 2: machines, 3: strangers}[r.OpenTo]
	}
	return nil
}

func TestARuleAsksTheCaller(t *testing.T) {
	t.Parallel()
	reader, shop := caller.New("token:reader", caller.Scope{Verb: caller.Read}), caller.New("token:shop", caller.Scope{Verb: caller.Read, Namespaces: []string{"shop"}})
	for name, c := range map[string]struct {
		rule rule
		who  *caller.Caller
		says string // empty if it may
	}{
		"all of it":              {unlimited(caller.Read), reader, ""},
		"a part of it":           {unlimited(caller.Read), shop, "token:shop may not read all resources of the mesh: it has the scopes read:shop"},
		"another verb":           {unlimited(caller.Admin), reader, "token:reader may not administer who else may call: it has the scopes read"},
		"what its handler asks":  {narrowed(caller.Write), shop, ""},
		"nobody knows who":       {narrowed(caller.Write), nil, "a caller that nobody knows may not write all resources of the mesh: it may do nothing"},
		"any caller":             {known, shop, ""},
		"none":                   {known, nil, "a caller that nobody knows may not read all resources of the mesh: it may do nothing"},
		"a stranger":             {strangers, nil, ""},
		"a machine of discovery": {machines, caller.Trusted(), "machines call this at a discovery"},
	} {
		err := caller.StatusOf(c.rule.allows(c.who))
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, codes.PermissionDenied, status.Code(err), name)
		require.Equal(t, c.says, status.Convert(err).Message(), name)
	}
}

func TestAServerWithAnRPCOfNoRuleDoesNotServe(t *testing.T) {
	t.Parallel()
	services := map[string]grpc.ServiceInfo{"pgmesh.admin.v1.AdminService": {Methods: []grpc.MethodInfo{{Name: "Get"}}}}
	require.NoError(t, Check(services))
	services["pgmesh.admin.v1.AdminService"] = grpc.ServiceInfo{Methods: []grpc.MethodInfo{{Name: "Get"}, {Name: "Destroy"}}}
	require.ErrorContains(t, Check(services), "nothing says who may call /pgmesh.admin.v1.AdminService/Destroy")

	info := &grpc.UnaryServerInfo{FullMethod: "/pgmesh.admin.v1.AdminService/Destroy"}
	_, err := Unary(caller.With(t.Context(), caller.Trusted()), nil, info, nil)
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

func TestStrangersMayEnrollAndNothingElse(t *testing.T) {
	t.Parallel()
	for name := range declared {
		require.Equal(t, name == "/pgmesh.identity.v1.AuthorityService/Enroll", OpenToStrangers(name), name)
	}
}
