package cli

import (
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// changeOptions are the flags of a command that changes resources.
type changeOptions struct {
	message       string
	dryRun        bool
	confirmWithin time.Duration // 0 keeps the change without confirmation
}

func (w *changeOptions) declareFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&w.message, "message", "m", "", "why, to be kept with the revision")
	cmd.Flags().BoolVar(&w.dryRun, "dry-run", false, "let the server check everything, and change nothing")
}

// author is who made the change, for a server that does not know the caller: the user's name on this machine.
func author() string {
	u, err := user.Current()
	if err != nil {
		return "" // the server then records the address
	}
	return u.Username
}

// timeText formats a time for programs, "" for none.
func timeText(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return at.AsTime().Format(time.RFC3339)
}

// timeOf converts a time to be printed, nil for none.
func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	m := t.AsTime()
	return &m
}

// violationsOf converts the violations in a refusal.
func violationsOf(r *adminv1.Refusal) kinds.Errors {
	violations := make(kinds.Errors, 0, len(r.GetViolations())+1)
	for _, v := range r.GetViolations() {
		violations = append(violations, kinds.Violation{
			File: v.GetFile(), Document: int(v.GetDocument()), Line: int(v.GetLine()),
			Kind: v.GetKind(), Namespace: v.GetNamespace(), Name: v.GetName(),
			Path: v.GetPath(), Reason: v.GetReason(), Hint: v.GetHint(),
		})
	}
	if r.GetOmitted() > 0 {
		violations = append(violations, kinds.Violation{Reason: fmt.Sprintf("%d more violations are not shown", r.GetOmitted())})
	}
	return violations
}

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
}

func outcomesOf(sent []*adminv1.Outcome) []outcome {
	read := make([]outcome, len(sent))
	for i, o := range sent {
		r := o.GetResource()
		action, known := actions[o.GetAction()]
		if !known {
			action = strings.ToLower(o.GetAction().String())
		}
		read[i] = outcome{action, r.GetGroup(), r.GetKind(), r.GetNamespace(), r.GetName()}
	}
	return read
}

// key returns the key of the resource, and whether this program knows its kind.
func (o outcome) key() (kinds.Key, bool) {
	kind, known := kinds.Lookup(o.Group, o.Kind)
	return kinds.Key{Kind: kind, Namespace: o.Space, Name: o.Name}, known
}

// changeAnswer is implemented by the answers to every change.
type changeAnswer interface {
	warningAnswer
	GetRevision() int64
	GetOutcomes() []*adminv1.Outcome
	GetConfirmBy() *timestamppb.Timestamp
}

// printOutcomes prints what a change did.
func printOutcomes(p *printer, answer changeAnswer, dryRun bool) error {
	revision, outcomes, warnings := answer.GetRevision(), outcomesOf(answer.GetOutcomes()), warningsOf(answer)
	printWarnings(p.Err, warnings)
	if p.output.isTree() {
		return p.printTree(struct {
			Revision int64     `json:"revision"`
			DryRun   bool      `json:"dryRun,omitempty"`
			Outcomes []outcome `json:"outcomes"`
			Warnings []problem `json:"warnings,omitempty"`
			Confirm  string    `json:"confirmBy,omitempty"`
		}{revision, dryRun, outcomes, warnings.problems, timeText(answer.GetConfirmBy())})
	}
	var b strings.Builder
	for _, o := range outcomes {
		key, known := o.key()
		switch {
		case !known:
			fmt.Fprintf(&b, "%s.%s %s/%s %s\n", o.Kind, o.Group, o.Space, o.Name, o.Action)
		case p.output.format == nameFormat:
			fmt.Fprintln(&b, reference(key))
		default:
			fmt.Fprintf(&b, "%s %s %s\n", word(key.Kind), key.FullName(), o.Action)
		}
	}
	if p.output.format != nameFormat {
		fmt.Fprintln(&b, conclusion(revision, dryRun))
		b.WriteString(confirmHint(answer.GetConfirmBy(), revision))
	}
	return p.print(b.String())
}

func conclusion(revision int64, dryRun bool) string {
	switch {
	case dryRun:
		return "dry run: nothing was changed"
	case revision == 0:
		return "nothing to change"
	}
	return fmt.Sprintf("revision %d", revision)
}
