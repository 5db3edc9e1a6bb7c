package provider

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// The settings are mcp-client's flags, by their names: --tls-ca is tls_ca. So contexts and the
// environment count as they do there.
var settings = []string{
	"server", "context", "token", "token-file", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-server-id",
	"insecure", "insecure-any-address", "timeout",
}

// message is the one setting that is no flag.
const message = "message"

func argumentOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// newSession returns a session whose flags have their defaults.
func newSession() (*session.Session, *pflag.FlagSet) {
	s := session.New(strings.NewReader(""), output.NewPrinter(io.Discard, io.Discard, os.Getenv), os.Getenv)
	flags := pflag.NewFlagSet("terraform-provider-pgmesh", pflag.ContinueOnError)
	s.DeclareFlags(flags)
	return s, flags
}

func arguments() map[string]schema.Attribute {
	_, flags := newSession()
	all := map[string]schema.Attribute{
		message: schema.StringAttribute{Optional: true, Description: "Why changes are made, to be kept with the revisions."},
	}
	for _, name := range settings {
		flag := flags.Lookup(name)
		text := inArguments(sentence(flag.Usage))
		if flag.Value.Type() == "bool" {
			all[argumentOf(name)] = schema.BoolAttribute{Optional: true, Description: text}
			continue
		}
		all[argumentOf(name)] = schema.StringAttribute{Optional: true, Description: text, Sensitive: name == "token"}
	}
	return all
}

// sentence makes a sentence of a flag's usage.
func sentence(usage string) string { return strings.ToUpper(usage[:1]) + usage[1:] + "." }

// given reads the arguments, by the names of their flags. It reports whether all are known.
func given(config tftypes.Value) (map[string]string, bool, error) {
	var members map[string]tftypes.Value
	if err := config.As(&members); err != nil {
		return nil, false, err
	}
	all := map[string]string{}
	for _, flag := range append([]string{message}, settings...) {
		value := members[argumentOf(flag)]
		switch {
		case !value.IsKnown():
			return nil, false, nil
		case value.IsNull():
			continue
		case value.Type().Is(tftypes.Bool):
			var is bool
			if err := value.As(&is); err != nil {
				return nil, false, err
			}
			all[flag] = fmt.Sprint(is)
		default:
			var text string
			if err := value.As(&text); err != nil {
				return nil, false, err
			}
			all[flag] = text
		}
	}
	return all, true, nil
}

func connect(given map[string]string, version string) (*mesh.Mesh, error) {
	s, flags := newSession()
	for name, value := range given {
		if name == message {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
	}
	if err := s.Complete(flags); err != nil {
		return nil, err
	}
	s.Server.Agent = "terraform-provider-pgmesh/" + version
	return mesh.Connect(s, given[message])
}
