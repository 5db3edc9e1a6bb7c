package main

import (
	"fmt"

	"github.com/pgmesh/pgmesh/kinds/reference"
)

// readers are the functions of 68_names.sql that read what stands at one place, by its form.
var readers = map[reference.Form]string{
	reference.GatewayForm: "gateway_named", reference.DestinationForm: "destination_named", reference.FullHostForm: "full_host_named",
	reference.DelegateForm: "delegate_named", reference.CredentialForm: "credential_named", reference.PullSecretForm: "pull_secret_named",
	reference.SecretForm:     "secret_named",
	reference.AttachmentForm: "attachment_named", reference.BackendForm: "backend_named",
}

func row(n *reference.Named, value string, at path) query {
	reader, known := readers[n.Form]
	if !known {
		panic("the database does not read names of the form " + n.Form)
	}
	scope := ""
	if n.Form == reference.DestinationForm || n.Form == reference.FullHostForm {
		scope = ", obeyed_by.scope"
	}
	return query{"n.*", []string{fmt.Sprintf("mesh_internal.%s('%s', namespace, %s%s, %s) n", reader, n.Role, value, scope, at)}}
}
