package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	accessv1 "github.com/pgmesh/pgmesh/proto/pgmesh/access/v1"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// pluginFor is run for machine.proto, whose RPC Settings has these options.
func pluginFor(t *testing.T, options *descriptorpb.MethodOptions) *protogen.Plugin {
	t.Helper()
	source := machinev1.File_pgmesh_machine_v1_machine_proto
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{source.Path()}}
	for i := range source.Imports().Len() {
		imported := source.Imports().Get(i).FileDescriptor
		for j := range imported.Imports().Len() {
			request.ProtoFile = append(request.ProtoFile, protodesc.ToFileDescriptorProto(imported.Imports().Get(j).FileDescriptor))
		}
		request.ProtoFile = append(request.ProtoFile, protodesc.ToFileDescriptorProto(imported))
	}
	file := protodesc.ToFileDescriptorProto(source)
	file.GetService()[0].GetMethod()[0].Options = options
	request.ProtoFile = append(request.ProtoFile, file)
	p, err := protogen.Options{}.New(request)
	require.NoError(t, err)
	return p
}

func TestNothingIsGeneratedForAnRPCThatDoesNotSayWhoMayCallIt(t *testing.T) {
	t.Parallel()
	unspecified := &descriptorpb.MethodOptions{}
	proto.SetExtension(unspecified, accessv1.E_Access, &accessv1.Access{Rule: &accessv1.Access_Narrowed{}})
	for name, options := range map[string]*descriptorpb.MethodOptions{"no option": nil, "no verb": unspecified} {
		require.ErrorContains(t, generate(pluginFor(t, options)), "pgmesh/machine/v1/machine.proto: pgmesh.machine.v1.MachineService.Settings does not say who may call it", name)
	}
	known := &descriptorpb.MethodOptions{}
	proto.SetExtension(known, accessv1.E_Access, &accessv1.Access{Rule: &accessv1.Access_OpenTo{OpenTo: accessv1.Group_GROUP_KNOWN}})
	p := pluginFor(t, known)
	require.NoError(t, generate(p))
	require.Regexp(t, `"/pgmesh.machine.v1.MachineService/Settings": +openTo\(known\),`, p.Response().GetFile()[0].GetContent())
}
