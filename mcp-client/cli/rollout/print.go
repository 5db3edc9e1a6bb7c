package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/refusals"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// numbers are the printed form of how far a rollout has come.
type numbers struct {
	Concerned uint32     `json:"concerned"`
	Ran       uint32     `json:"ran"`
	Refused   uint32     `json:"refused"`
	ToAnswer  uint32     `json:"toAnswer"`
	Away      uint32     `json:"away"`
	First     *time.Time `json:"firstAt,omitempty"`
	Half      *time.Time `json:"halfAt,omitempty"`
	Last      *time.Time `json:"lastAt,omitempty"`
}

// rollout is the printed form of a rollout.
type rollout struct {
	Revision  int64      `json:"revision"`
	Committed *time.Time `json:"committedAt,omitempty"`
	Author    string     `json:"author,omitempty"`
	numbers
	Parts []part `json:"parts,omitempty"`
}

// part is a rollout at one discovery, in one namespace.
type part struct {
	Discovery string `json:"discovery"`
	Namespace string `json:"namespace"`
	numbers
}

// counted is what a rollout and its parts have in common.
type counted interface {
	GetConcerned() uint32
	GetRan() uint32
	GetRefused() uint32
	GetToAnswer() uint32
	GetAway() uint32
	GetFirstAt() *timestamppb.Timestamp
	GetHalfAt() *timestamppb.Timestamp
	GetLastAt() *timestamppb.Timestamp
}

func numbersOf(c counted) numbers {
	return numbers{
		c.GetConcerned(), c.GetRan(), c.GetRefused(), c.GetToAnswer(), c.GetAway(),
		output.TimeOf(c.GetFirstAt()), output.TimeOf(c.GetHalfAt()), output.TimeOf(c.GetLastAt()),
	}
}

func rolloutOf(sent *adminv1.Rollout) rollout {
	r := rollout{Revision: sent.GetRevision(), Committed: output.TimeOf(sent.GetCommittedAt()), Author: sent.GetAuthor(), numbers: numbersOf(sent)}
	for _, p := range sent.GetParts() {
		r.Parts = append(r.Parts, part{p.GetDiscovery(), p.GetNamespace(), numbersOf(p)})
	}
	return r
}

// columns are those of the numbers.
var columns = []string{"CONCERNED", "RAN", "REFUSED", "TO ANSWER", "AWAY", "FIRST", "HALF", "LAST"}

func (p program) cells(n numbers, committed *time.Time) []string {
	refused := fmt.Sprint(n.Refused)
	if n.Refused > 0 {
		refused = p.Paint(terminal.Red, refused)
	}
	cells := []string{fmt.Sprint(n.Concerned), fmt.Sprint(n.Ran), refused, fmt.Sprint(n.ToAnswer), fmt.Sprint(n.Away)}
	for _, at := range []*time.Time{n.First, n.Half, n.Last} {
		cells = append(cells, after(committed, at))
	}
	return cells
}

// after is how long after the commit something was.
func after(committed, at *time.Time) string {
	if committed == nil || at == nil {
		return "-"
	}
	switch d := max(0, at.Sub(*committed)); {
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	default:
		return words.Span(d)
	}
}

// status prints one revision with its parts, and what proxies refuse.
func (p program) status(ctx context.Context, revision int64) error {
	list, err := p.list(ctx, &adminv1.ListRolloutsRequest{Revision: revision, Limit: 1})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("the server at %s knows of no rollout: nothing has changed within the last hour", p.Server.Address)
	}
	if revision == 0 { // the parts come with one that is named
		if list, err = p.list(ctx, &adminv1.ListRolloutsRequest{Revision: list[0].Revision}); err != nil || len(list) == 0 {
			return err
		}
	}
	r := list[0]
	if err := p.printStatus(r); err != nil {
		return err
	}
	if r.Refused > 0 && p.Output.IsTable() {
		if err := refusals.Print(ctx, p.Session); err != nil {
			return err
		}
	}
	return verdict(r)
}

func (p program) printStatus(r rollout) error {
	switch {
	case p.Output.IsTree():
		return p.PrintTree(r)
	case p.Output.Format == output.Name:
		return p.Printf("%d\n", r.Revision)
	}
	w := output.NewRows(p.Out)
	w.Row("revision", fmt.Sprintf("%d, committed %s by %s", r.Revision, words.ShortTime(r.Committed), words.OrDash(r.Author)))
	if err := w.Flush(); err != nil {
		return err
	}
	w = output.NewRows(p.Out)
	w.Row(append([]string{"DISCOVERY", "NAMESPACE"}, columns...)...)
	for _, one := range r.Parts {
		w.Row(append([]string{one.Discovery, one.Namespace}, p.cells(one.numbers, r.Committed)...)...)
	}
	if len(r.Parts) != 1 {
		w.Row(append([]string{"all", "all"}, p.cells(r.numbers, r.Committed)...)...)
	}
	return w.Flush()
}

// verdict is an error unless all run the revision that it concerns and that are there.
func verdict(r rollout) error {
	text := fmt.Sprintf("%d of %d proxies run revision %d", r.Ran, r.Concerned, r.Revision)
	switch {
	case r.Refused > 0:
		return &failure.NotRun{Refused: true, Text: fmt.Sprintf("%s, and %s some of it", text, words.Counted(int(r.Refused), "refuses", "refuse"))}
	case r.ToAnswer > 0:
		return &failure.NotRun{Text: text + " so far"}
	}
	return nil
}

// printLine prints a rollout as it stands now.
func (p program) printLine(r rollout) error {
	if p.Output.IsTree() {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if p.Output.IsTemplate() {
			err = p.PrintTemplate(text)
		} else {
			err = p.Print(string(text))
		}
		if err != nil {
			return err
		}
		return p.Print("\n")
	}
	w := output.NewRows(p.Out)
	cells := append([]string{fmt.Sprint(r.Revision)}, p.cells(r.numbers, r.Committed)...)
	for i, title := range append([]string{"REVISION"}, columns...) {
		cells[i] = fmt.Sprintf("%-*s", len(title), cells[i])
	}
	w.Row(cells...)
	return w.Flush()
}
