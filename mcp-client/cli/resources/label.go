package resources

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// Label returns the command label.
func Label(s *session.Session) *cobra.Command {
	return program{s}.mapCommand("label", "labels", "Set and remove labels of resources", `  mcp-client label vs/reviews tier=front
  mcp-client label vs reviews ratings app=bookinfo tier- --overwrite`)
}

// Annotate returns the command annotate.
func Annotate(s *session.Session) *cobra.Command {
	return program{s}.mapCommand("annotate", "annotations", "Set and remove annotations of resources", `  mcp-client annotate vs/reviews example.com/owner=shop
  mcp-client annotate vs/reviews example.com/owner-`)
}

// mapCommand is a command that changes a map of the metadata.
func (p program) mapCommand(verb, field, short, example string) *cobra.Command {
	var w change.Options
	var overwrite bool
	var chosen choosing
	cmd := &cobra.Command{
		Use:   verb + " (KIND NAME... | KIND/NAME... | KIND (-l LABELS | --all)) (KEY=VALUE | KEY-)...",
		Short: short,
		Long: short + `, all of them as one revision, or none. KEY- removes one, and says nothing if it is not there.

What has another value already is refused without --overwrite.

` + change.WaitHelp,
		Example:           example,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, changes, err := splitChanges(args)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			keys, err := p.namedOrChosen(cmd, names, chosen)
			if err != nil || len(keys) == 0 {
				return err
			}
			return p.modify(cmd.Context(), keys, w, func(tree map[string]any) (map[string]any, error) {
				return tree, setMembers(tree, field, changes, overwrite)
			})
		},
	}
	chosen.declareFlags(cmd)
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "also what has another value")
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	w.DeclareWait(cmd)
	return cmd
}

// splitChanges splits arguments into what is named, and what is to become of it: values by their
// keys, nil for those to remove.
func splitChanges(args []string) (names []string, changes map[string]*string, err error) {
	changes = map[string]*string{}
	for _, arg := range args {
		key, value, given := strings.Cut(arg, "=")
		removed, remove := strings.CutSuffix(key, "-")
		switch {
		case given && key != "":
			changes[key] = &value
		case !given && remove && removed != "" && len(names) > 0:
			if changes[removed] != nil {
				return nil, nil, fmt.Errorf("%s is both set and removed", removed)
			}
			changes[removed] = nil
		case given || len(changes) > 0:
			return nil, nil, fmt.Errorf("%q is not of the form KEY=VALUE or KEY-", arg)
		default:
			names = append(names, arg)
		}
	}
	if len(changes) == 0 {
		return nil, nil, errors.New("say what to set, as KEY=VALUE, or to remove, as KEY-")
	}
	return names, changes, nil
}

// setMembers changes members of a map of the metadata.
func setMembers(tree map[string]any, field string, changes map[string]*string, overwrite bool) error {
	metadata, _ := tree["metadata"].(map[string]any)
	members, _ := metadata[field].(map[string]any)
	if members == nil {
		members = map[string]any{}
	}
	for key, value := range changes {
		there, has := members[key]
		switch {
		case value == nil:
			delete(members, key)
		case has && there != *value && !overwrite:
			return fmt.Errorf("%s has %s=%v already: --overwrite replaces it", field, key, there)
		default:
			members[key] = *value
		}
	}
	metadata[field] = members
	return nil
}
