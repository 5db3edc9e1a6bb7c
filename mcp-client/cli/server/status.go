// Package server has the commands on the server itself: how it fares, how fast it is, and who keeps
// it waiting.
package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/refusals"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Status returns the command status.
func Status(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:   "status",
		Short: "Tell how the server fares, what it has, and who follows it",
		Long: `Tell how the server fares, what it has, and who follows it: its revision and that of the mesh, its connection to the database, how many
resources of each kind there are, which revision each client has acknowledged, what proxies refuse, and what came of dialling the sinks of mesh.sinks and of its flags. -o wide lists
what each client asks for.

Of a relay it is what that knows itself, and while the database is away what is known without it. Of a server that is not pgmesh's it is what a reader can tell: which protocol it speaks, what it calls itself, and what it has.

The exit code is 1 if the server has nothing to serve, or has lost its source.`,
		Example: `  mcp-client status
  mcp-client status -o wide
  mcp-client status -o jsonpath={.server.revision}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.status(cmd.Context()) },
	}
}

var (
	errNotReady = errors.New("the server has nothing to serve yet")
	errNoSource = errors.New("the server has lost its source, and serves what it has")
)

func (p program) status(ctx context.Context) error {
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Status, &adminv1.StatusRequest{})
	if _, others := errors.AsType[*failure.NotOffered](err); others || failure.IsRelay(err) {
		return p.statusOfOthers(ctx)
	}
	if err != nil {
		return err
	}
	if err := p.printStatus(resp, refusals.Known(ctx, p.Session, nil)); err != nil {
		return err
	}
	switch {
	case !resp.GetServer().GetReady():
		return fmt.Errorf("%w: %s", errNotReady, resp.GetServer().GetMissing())
	case !resp.GetSource().GetConnected(), resp.GetSource().GetStaleSince() != nil:
		return errNoSource
	}
	return nil
}

func (p program) printStatus(s *adminv1.StatusResponse, refused []*adminv1.RefusedResource) error {
	if p.Output.IsTree() {
		return p.PrintMessage(s)
	}
	w := output.NewRows(p.Out)
	server := s.GetServer()
	w.Row("server", p.Server.Address+", version "+server.GetVersion()+", up for "+elapsed(server.GetStarted(), server.GetNow()))
	w.Row("serves", "revision "+fmt.Sprint(server.GetRevision()))
	w.Row("source", p.sourceText(s))
	if s.GetMesh() != nil {
		p.writeMesh(w, s.GetMesh())
	}
	w.Row("clients", fmt.Sprint(len(s.GetClients())))
	if len(s.GetSinks()) > 0 {
		w.Row("sinks", p.sinksText(s.GetSinks()))
	}
	if text := refusals.Summary(refused); text != "" {
		w.Row("refused", p.Paint(terminal.Red, text)+" (see mcp-client problems -A)")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := p.printClients(s); err != nil {
		return err
	}
	return p.printSinks(s)
}

// sinksText counts sinks, of which several servers may tell.
func (p program) sinksText(all []*adminv1.SinkStatus) string {
	reached := map[string]bool{}
	for _, one := range all {
		reached[one.GetAddress()] = reached[one.GetAddress()] || one.GetConnected()
	}
	connected := 0
	for _, is := range reached {
		if is {
			connected++
		}
	}
	text := fmt.Sprintf("%d, %d connected", len(reached), connected)
	if connected < len(reached) {
		return p.Paint(terminal.Yellow, text)
	}
	return text
}

func (p program) printSinks(s *adminv1.StatusResponse) error {
	if len(s.GetSinks()) == 0 {
		return nil
	}
	fmt.Fprintln(p.Out)
	w := output.NewRows(p.Out)
	w.Row("SINK", "SERVER", "STATE", "SINCE", "ERROR")
	for _, one := range s.GetSinks() {
		state, since := sinkState(one)
		w.Row(one.GetAddress(), words.OrDash(one.GetServer()), state, words.ShortTime(output.TimeOf(since)), words.OrDash(words.FirstLine(one.GetError())))
	}
	return w.Flush()
}

// sinkState is how a sink fares at a server, in words, and since when.
func sinkState(s *adminv1.SinkStatus) (string, *timestamppb.Timestamp) {
	switch {
	case s.GetConnected():
		return "connected", s.GetSince()
	case s.GetDials():
		return "not connected", s.GetSince()
	case s.GetLetGoAt() != nil:
		return "left to others", s.GetLetGoAt()
	default:
		return "not dialled", nil
	}
}

// sourceText tells where the server has it from, and whether that is there.
func (p program) sourceText(s *adminv1.StatusResponse) string {
	source, now := s.GetSource(), s.GetServer().GetNow()
	connected := p.Paint(terminal.Green, "connected")
	if !source.GetConnected() {
		connected = p.Paint(terminal.Red, "not connected")
	}
	text := fmt.Sprintf("%s, %s for %s, lost %s", source.GetName(), connected, elapsed(source.GetSince(), now), words.Counted(int(source.GetLosses()), "time", "times"))
	switch {
	case source.GetSaved():
		text += "; " + p.Paint(terminal.Yellow, "what is served was saved "+elapsed(source.GetStaleSince(), now)+" ago")
	case source.GetStaleSince() != nil:
		text += "; " + p.Paint(terminal.Yellow, "what is served was the newest "+elapsed(source.GetStaleSince(), now)+" ago")
	}
	return text
}

// writeMesh writes what the database tells.
func (p program) writeMesh(w *output.Rows, mesh *adminv1.MeshStatus) {
	w.Row("mesh", fmt.Sprintf("revision %d at %s, history from revision %d", mesh.GetNewestRevision(), stampText(mesh.GetNewestTime()), mesh.GetOldestRevision()))
	if n := mesh.GetWaitingConfirmations(); n > 0 {
		w.Row("waiting", p.Paint(terminal.Yellow, words.Counted(int(n), "change", "changes")+" to be confirmed")+" (see mcp-client confirm --list)")
	}
	total := int64(0)
	for _, k := range mesh.GetKinds() {
		total += k.GetResources()
	}
	w.Row("resources", fmt.Sprint(total))
	for _, k := range mesh.GetKinds() {
		w.Row("  "+words.KindNamed(k.GetGroup(), k.GetKind()), fmt.Sprint(k.GetResources()))
	}
}

func (p program) printClients(s *adminv1.StatusResponse) error {
	if len(s.GetClients()) == 0 {
		return nil
	}
	fmt.Fprintln(p.Out)
	w := output.NewRows(p.Out)
	w.Row("CLIENT", "PROTOCOL", "CONNECTED", "REVISION", "REFUSES")
	for _, c := range s.GetClients() {
		var refuses []string
		for _, sub := range c.GetSubscriptions() {
			if sub.GetRefused() > 0 {
				refuses = append(refuses, fmt.Sprintf("%s: %s", sub.GetType(), words.FirstLine(sub.GetReason())))
			}
		}
		w.Row(
			c.GetNode(), c.GetProtocol(), words.ShortTime(output.TimeOf(c.GetSince())), words.Revision(c.GetRevision()), words.OrDash(strings.Join(refuses, "; ")),
		)
		if p.Output.Format != output.Wide {
			continue
		}
		for _, sub := range c.GetSubscriptions() {
			w.Row("  "+sub.GetType(), "", "", words.Revision(sub.GetAccepted()), "")
		}
	}
	return w.Flush()
}

// elapsed is the time between two moments of the server, in words.
func elapsed(from, to *timestamppb.Timestamp) string {
	if from == nil || to == nil {
		return "-"
	}
	return words.Span(to.AsTime().Sub(from.AsTime()))
}

func stampText(at *timestamppb.Timestamp) string {
	if at == nil {
		return "-"
	}
	return words.LocalTime(at.AsTime())
}

// othersStatus is what a reader can tell of a server, as it is printed.
type othersStatus struct {
	Server    string              `json:"server"`
	Protocol  string              `json:"protocol"`
	Name      string              `json:"name,omitempty"`
	Resources int                 `json:"resources"`
	Kinds     []connect.KindCount `json:"kinds"`
}

func (p program) statusOfOthers(ctx context.Context) error {
	var told mcp.Status
	notice := p.Notice("reading from " + p.Server.Address)
	read, err := p.Server.Read(ctx, kinds.All(), &connect.Events{Answered: func(s mcp.Status) { told = s }, Message: notice.Count, Unanswered: p.WarnOfMissing})
	notice.End()
	if err != nil {
		return err
	}
	s := othersStatus{p.Server.Address, told.Protocol.String(), told.Server, len(read.Resources), connect.CountKinds(read.Resources)}
	if p.Output.IsTree() {
		return p.PrintTree(s)
	}
	w := output.NewRows(p.Out)
	w.Row("server", s.Server)
	w.Row("name", words.OrDash(s.Name))
	w.Row("protocol", s.Protocol)
	w.Row("resources", fmt.Sprint(s.Resources))
	for _, k := range s.Kinds {
		w.Row("  "+words.KindNamed(k.Group, k.Kind), fmt.Sprint(k.Count))
	}
	return w.Flush()
}
