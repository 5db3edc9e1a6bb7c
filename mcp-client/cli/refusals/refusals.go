// Package refusals tells what Envoys refuse of what they are sent, for commands of several topics.
package refusals

import (
	"context"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// List lists what connected proxies refuse, in the namespaces of the session.
func List(ctx context.Context, s *session.Session) ([]*adminv1.RefusedResource, error) {
	return in(ctx, s, s.Namespace.Requested())
}

func in(ctx context.Context, s *session.Session, namespaces []string) ([]*adminv1.RefusedResource, error) {
	resp, err := session.Call(ctx, s, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.ListRefusals, &adminv1.ListRefusalsRequest{Namespaces: namespaces})
	return resp.GetRefusals(), err
}

// Known is List for a command about something else: of these namespaces, or all that the caller may see. A server
// without proxies to tell of has none, and what else hinders is a warning.
func Known(ctx context.Context, s *session.Session, namespaces []string) []*adminv1.RefusedResource {
	list, err := in(ctx, s, namespaces)
	if err != nil && !failure.IsNotTold(err) {
		fmt.Fprintln(s.Err, "warning: what proxies refuse is not known:", err)
	}
	return list
}

// Print prints what proxies refuse, for people.
func Print(ctx context.Context, s *session.Session) error {
	list, err := List(ctx, s)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := s.Printf("\n%s/%s refuses, for %s, of the %ss: %s\n  %s\n%s", r.GetNamespace(), r.GetProxy(), words.Age(r.GetSince().AsTime()),
			TypeOf(r), r.GetEnvoyResource(), words.FirstLine(r.GetReason()), madeFrom(r)); err != nil {
			return err
		}
	}
	return nil
}

// Summary says in a line who refuses something, "" if nobody does.
func Summary(list []*adminv1.RefusedResource) string {
	if len(list) == 0 {
		return ""
	}
	first, proxies := list[0], map[string]bool{}
	for _, r := range list {
		proxies[r.GetNamespace()+"/"+r.GetProxy()] = true
	}
	return fmt.Sprintf("%s by %s: %s/%s refuses the %s %s: %s", words.Counted(len(list), "resource of Envoy's", "resources of Envoy's"),
		words.Counted(len(proxies), "proxy", "proxies"), first.GetNamespace(), first.GetProxy(), TypeOf(first), first.GetEnvoyResource(), words.FirstLine(first.GetReason()))
}

// TypeOf is the last word of the type: Listener of type.googleapis.com/envoy.config.listener.v3.Listener.
func TypeOf(r *adminv1.RefusedResource) string {
	url := r.GetTypeUrl()
	return url[strings.LastIndexAny(url, "./")+1:]
}

// madeFrom says what a refused resource of Envoy's was made from.
func madeFrom(r *adminv1.RefusedResource) string {
	of := r.GetResource()
	if of == nil {
		return ""
	}
	text := fmt.Sprintf("  made from %s%s, which revision %d changed last, by %s", title(of), at(r.GetPath()), r.GetRevision(), words.OrDash(words.FirstLine(r.GetAuthor())))
	var others []string
	for _, source := range r.GetSources() {
		if name := title(source); name != title(of) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		text += "; also from " + strings.Join(others, ", ")
	}
	return text + "\n"
}

// at names a field, if it is known.
func at(path string) string {
	if path == "" {
		return ""
	}
	return " (" + words.FirstLine(path) + ")"
}

func title(r *adminv1.ResourceRef) string {
	return words.Title(r.GetGroup(), r.GetKind(), r.GetNamespace(), r.GetName())
}
