package change

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

var actions = map[adminv1.Outcome_Action]string{
	adminv1.Outcome_ACTION_CREATED:    "created",
	adminv1.Outcome_ACTION_CONFIGURED: "configured",
	adminv1.Outcome_ACTION_UNCHANGED:  "unchanged",
	adminv1.Outcome_ACTION_DELETED:    "deleted",
}

// outcome is the printed form of what happened to one resource.
type outcome struct {
	Action string `json:"action"`
	Group  string `json:"group"`
	Kind   string `json:"kind"`
	Space  string `json:"namespace,omitempty"`
	Name   string `json:"name"`
	// Fields say what differs, where that is known.
	Fields []string `json:"fields,omitempty"`
}

func outcomesOf(sent []*adminv1.Outcome) []outcome {
	read := make([]outcome, len(sent))
	for i, o := range sent {
		r := o.GetResource()
		action, known := actions[o.GetAction()]
		if !known {
			action = strings.ToLower(o.GetAction().String())
		}
		read[i] = outcome{action, r.GetGroup(), r.GetKind(), r.GetNamespace(), r.GetName(), nil}
	}
	return read
}

// key returns the key of the resource, and whether this program knows its kind.
func (o outcome) key() (kinds.Key, bool) {
	kind, known := words.Lookup(o.Group, o.Kind)
	return kinds.Key{Kind: kind, Namespace: o.Space, Name: o.Name}, known
}

// inWords is "virtualservice shop/web configured", or "" for a kind that this program does not know.
func (o outcome) inWords() string {
	key, known := o.key()
	if !known {
		return ""
	}
	return fmt.Sprintf("%s %s %s", words.Kind(key.Kind), key.FullName(), o.Action)
}

// changeAnswer is implemented by the answers to every change.
type changeAnswer interface {
	problems.Answer
	GetRevision() int64
	GetOutcomes() []*adminv1.Outcome
	GetConfirmBy() *timestamppb.Timestamp
}

// PrintOutcomes prints what a change did.
func PrintOutcomes(p *output.Printer, answer changeAnswer, dryRun bool) error {
	revision, outcomes, warnings := answer.GetRevision(), outcomesOf(answer.GetOutcomes()), problems.WarningsOf(answer)
	problems.PrintWarnings(p.Err, warnings)
	if p.Output.IsTree() {
		return p.PrintTree(struct {
			Revision int64              `json:"revision"`
			DryRun   bool               `json:"dryRun,omitempty"`
			Outcomes []outcome          `json:"outcomes"`
			Warnings []problems.Problem `json:"warnings,omitempty"`
			Confirm  string             `json:"confirmBy,omitempty"`
		}{revision, dryRun, outcomes, warnings.Problems, timeText(answer.GetConfirmBy())})
	}
	var b strings.Builder
	for _, o := range outcomes {
		key, known := o.key()
		switch {
		case !known:
			fmt.Fprintf(&b, "%s.%s %s/%s %s\n", o.Kind, o.Group, o.Space, o.Name, o.Action)
		case p.Output.Format == output.Name:
			fmt.Fprintln(&b, words.Reference(key))
		default:
			fmt.Fprintln(&b, o.inWords())
		}
	}
	if p.Output.Format != output.Name {
		fmt.Fprintln(&b, Conclusion(revision, dryRun))
		b.WriteString(confirmHint(answer.GetConfirmBy(), revision))
	}
	return p.Print(b.String())
}

// Conclusion is the last line of what a change did.
func Conclusion(revision int64, dryRun bool) string {
	switch {
	case dryRun:
		return "dry run: nothing was changed"
	case revision == 0:
		return "nothing to change"
	}
	return fmt.Sprintf("revision %d", revision)
}

// timeText formats a time for programs, "" for none.
func timeText(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return at.AsTime().Format(time.RFC3339)
}
