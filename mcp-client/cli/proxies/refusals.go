package proxies

import (
	"context"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Refusals prints what proxies refuse, for people.
func Refusals(ctx context.Context, s *session.Session) error {
	resp, err := session.Call(ctx, s, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.ListRefusals, &adminv1.ListRefusalsRequest{Namespaces: s.Namespace.Requested()})
	if err != nil {
		return err
	}
	for _, r := range resp.GetRefusals() {
		if err := s.Printf("\n%s/%s refuses, for %s, of the %s: %s\n  %s\n%s", r.GetNamespace(), r.GetProxy(), words.Age(r.GetSince().AsTime()),
			typeOf(r.GetTypeUrl()), r.GetEnvoyResource(), words.FirstLine(r.GetReason()), madeFrom(r)); err != nil {
			return err
		}
	}
	return nil
}

// typeOf is the last word of a type: Listener of type.googleapis.com/envoy.config.listener.v3.Listener.
func typeOf(url string) string { return url[strings.LastIndexAny(url, "./")+1:] + "s" }

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
