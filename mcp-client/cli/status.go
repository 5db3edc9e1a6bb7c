package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell how the server fares, what it has, and who follows it",
		Long: `Tell how the server fares, what it has, and who follows it: its revision and that of the mesh, its connection to the database, how many
resources of each kind there are, which revision each client has acknowledged, and what came of dialling the sinks of mesh.sinks and of its flags. -o wide lists
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

func (p *session) status(ctx context.Context) error {
	resp, err := ask(ctx, p, adminv1.AdminServiceClient.Status, &adminv1.StatusRequest{})
	if _, others := errors.AsType[*notOfferedError](err); others || isRelay(err) {
		return p.statusOfOthers(ctx)
	}
	if err != nil {
		return err
	}
	if err := p.printStatus(resp); err != nil {
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

func (p *session) printStatus(s *adminv1.StatusResponse) error {
	if p.output.isTree() {
		return p.printMessage(s)
	}
	w := newRows(p.Out)
	server := s.GetServer()
	w.row("server", p.server.address+", version "+server.GetVersion()+", up for "+elapsed(server.GetStarted(), server.GetNow()))
	w.row("serves", "revision "+fmt.Sprint(server.GetRevision()))
	w.row("source", p.sourceText(s))
	if s.GetMesh() != nil {
		p.writeMesh(w, s.GetMesh())
	}
	w.row("clients", fmt.Sprint(len(s.GetClients())))
	if len(s.GetSinks()) > 0 {
		w.row("sinks", p.sinksText(s.GetSinks()))
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
func (p *session) sinksText(all []*adminv1.SinkStatus) string {
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
		return p.paint(terminal.Yellow, text)
	}
	return text
}

func (p *session) printSinks(s *adminv1.StatusResponse) error {
	if len(s.GetSinks()) == 0 {
		return nil
	}
	fmt.Fprintln(p.Out)
	w := newRows(p.Out)
	w.row("SINK", "SERVER", "STATE", "SINCE", "ERROR")
	for _, one := range s.GetSinks() {
		state, since := sinkState(one)
		w.row(one.GetAddress(), orDash(one.GetServer()), state, elapsed(since, s.GetServer().GetNow()), orDash(firstLine(one.GetError())))
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
func (p *session) sourceText(s *adminv1.StatusResponse) string {
	source, now := s.GetSource(), s.GetServer().GetNow()
	connected := p.paint(terminal.Green, "connected")
	if !source.GetConnected() {
		connected = p.paint(terminal.Red, "not connected")
	}
	text := fmt.Sprintf("%s, %s for %s, lost %s", source.GetName(), connected, elapsed(source.GetSince(), now), counted(int(source.GetLosses()), "time", "times"))
	switch {
	case source.GetSaved():
		text += "; " + p.paint(terminal.Yellow, "what is served was saved "+elapsed(source.GetStaleSince(), now)+" ago")
	case source.GetStaleSince() != nil:
		text += "; " + p.paint(terminal.Yellow, "what is served was the newest "+elapsed(source.GetStaleSince(), now)+" ago")
	}
	return text
}

// writeMesh writes what the database tells.
func (p *session) writeMesh(w *rows, mesh *adminv1.MeshStatus) {
	w.row("mesh", fmt.Sprintf("revision %d at %s, history from revision %d", mesh.GetNewestRevision(), stampText(mesh.GetNewestTime()), mesh.GetOldestRevision()))
	if n := mesh.GetWaitingConfirmations(); n > 0 {
		w.row("waiting", p.paint(terminal.Yellow, counted(int(n), "change", "changes")+" to be confirmed")+" (see mcp-client confirm --list)")
	}
	total := int64(0)
	for _, k := range mesh.GetKinds() {
		total += k.GetResources()
	}
	w.row("resources", fmt.Sprint(total))
	for _, k := range mesh.GetKinds() {
		w.row("  "+kindTitle(k.GetGroup(), k.GetKind()), fmt.Sprint(k.GetResources()))
	}
}

func (p *session) printClients(s *adminv1.StatusResponse) error {
	if len(s.GetClients()) == 0 {
		return nil
	}
	fmt.Fprintln(p.Out)
	w := newRows(p.Out)
	w.row("CLIENT", "PROTOCOL", "SINCE", "REVISION", "REFUSES")
	for _, c := range s.GetClients() {
		var refuses []string
		for _, sub := range c.GetSubscriptions() {
			if sub.GetRefused() > 0 {
				refuses = append(refuses, fmt.Sprintf("%s: %s", sub.GetType(), firstLine(sub.GetReason())))
			}
		}
		w.row(
			c.GetNode(), c.GetProtocol(), elapsed(c.GetSince(), s.GetServer().GetNow()), revisionText(c.GetRevision()), orDash(strings.Join(refuses, "; ")),
		)
		if p.output.format != wide {
			continue
		}
		for _, sub := range c.GetSubscriptions() {
			w.row("  "+sub.GetType(), "", "", revisionText(sub.GetAccepted()), "")
		}
	}
	return w.Flush()
}

func kindTitle(group, name string) string {
	if kind, known := kinds.Lookup(group, name); known {
		return word(kind)
	}
	return name + "." + group
}

// elapsed is the time between two moments of the server, in words.
func elapsed(from, to *timestamppb.Timestamp) string {
	if from == nil || to == nil {
		return "-"
	}
	return span(to.AsTime().Sub(from.AsTime()))
}

func stampText(at *timestamppb.Timestamp) string {
	if at == nil {
		return "-"
	}
	return localTime(at.AsTime())
}

// othersStatus is what a reader can tell of a server, as it is printed.
type othersStatus struct {
	Server    string      `json:"server"`
	Protocol  string      `json:"protocol"`
	Name      string      `json:"name,omitempty"`
	Resources int         `json:"resources"`
	Kinds     []kindCount `json:"kinds"`
}

func (p *session) statusOfOthers(ctx context.Context) error {
	var told mcp.Status
	notice := p.notice("reading from " + p.server.address)
	read, err := p.server.state(ctx, kinds.All(), &events{answered: func(s mcp.Status) { told = s }, message: notice.count, unanswered: p.warnOfMissing})
	notice.end()
	if err != nil {
		return err
	}
	s := othersStatus{p.server.address, told.Protocol.String(), told.Server, len(read.resources), countKinds(read.resources)}
	if p.output.isTree() {
		return p.printTree(s)
	}
	w := newRows(p.Out)
	w.row("server", s.Server)
	w.row("name", orDash(s.Name))
	w.row("protocol", s.Protocol)
	w.row("resources", fmt.Sprint(s.Resources))
	for _, k := range s.Kinds {
		w.row("  "+kindTitle(k.Group, k.Kind), fmt.Sprint(k.Count))
	}
	return w.Flush()
}
