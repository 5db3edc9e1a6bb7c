package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// patchTypes are the types of patches.
var patchTypes = []string{"merge", "json"}

// Patch returns the command patch.
func Patch(s *session.Session) *cobra.Command {
	p := program{s}
	var w change.Options
	var text, file, of string
	cmd := &cobra.Command{
		Use:   "patch (KIND NAME... | KIND/NAME...) (-p PATCH | --patch-file FILE)",
		Short: "Change some fields of resources",
		Long: `Change some fields of resources, all of them as one revision, or none. The PATCH is JSON or YAML.

With --type merge, which is the default, it has the fields that change: objects are merged, null removes a field, and a list is replaced
as a whole. With --type json it is a list of operations (RFC 6902): add, remove, replace, move, copy and test. Strategic patches are
Kubernetes' own; there are none here, as there are none of custom resources there.

It is made anew if somebody else changes the resource meanwhile. A patch with a metadata.resourceVersion is refused then, and a test
that fails refuses it, too.

` + change.WaitHelp,
		Example: `  mcp-client patch vs/ratings -p '{"spec": {"http": [{"route": [{"destination": {"host": "v2"}}]}]}}'
  mcp-client patch vs ratings --type json -p '[{"op": "replace", "path": "/spec/http/0/route/0/destination/host", "value": "v1"}]'`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := p.named(args, "patch")
			if err != nil {
				return err
			}
			edit, err := readPatch(of, text, file)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			return p.modify(cmd.Context(), keys, w, edit)
		},
	}
	cmd.Flags().StringVarP(&text, "patch", "p", "", "the patch, as JSON or YAML")
	cmd.Flags().StringVar(&file, "patch-file", "", "file with the patch")
	cmd.Flags().StringVar(&of, "type", patchTypes[0], "what the patch is: "+strings.Join(patchTypes, " or "))
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	w.DeclareWait(cmd)
	return cmd
}

// readPatch returns what a patch does to a resource.
func readPatch(of, text, file string) (func(map[string]any) (map[string]any, error), error) {
	if !slices.Contains(patchTypes, of) {
		return nil, fmt.Errorf("--type %s is not known: there are %s", of, strings.Join(patchTypes, " and "))
	}
	if (text == "") == (file == "") {
		return nil, errors.New("give the patch with -p or --patch-file, and not both")
	}
	if file != "" {
		read, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text = string(read)
	}
	written, err := asJSON(text)
	if err != nil {
		return nil, err
	}
	if of == "json" {
		operations, err := jsonpatch.DecodePatch(written)
		if err != nil {
			return nil, errors.New(`a patch of the type json is a list of operations, such as [{"op": "remove", "path": "/spec/gateways"}]`)
		}
		return patched(operations.Apply), nil
	}
	if written[0] != '{' {
		return nil, errors.New(`a patch of the type merge is an object, such as {"metadata": {"labels": {"app": "reviews"}}}`)
	}
	return patched(func(whole []byte) ([]byte, error) { return jsonpatch.MergePatch(whole, written) }), nil
}

// patched has a patch of JSON change a tree.
func patched(apply func([]byte) ([]byte, error)) func(map[string]any) (map[string]any, error) {
	return func(tree map[string]any) (map[string]any, error) {
		before, err := json.Marshal(tree)
		if err != nil {
			return nil, fmt.Errorf("write the resource as JSON: %w", err)
		}
		after, err := apply(before)
		if err != nil {
			return nil, err
		}
		var changed map[string]any
		if err := json.Unmarshal(after, &changed); err != nil || changed == nil {
			return nil, errors.New("nothing of the resource would be left")
		}
		return changed, nil
	}
}

// asJSON turns YAML, which JSON is, too, into JSON.
func asJSON(text string) ([]byte, error) {
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return nil, fmt.Errorf("the patch is not JSON, and not YAML either: %w", err)
	}
	written, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("the patch cannot be written as JSON: %w", err)
	}
	return written, nil
}
