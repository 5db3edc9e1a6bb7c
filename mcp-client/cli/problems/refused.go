package problems

import (
	"context"
	"fmt"

	"github.com/pgmesh/pgmesh/mcp-client/cli/refusals"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// refused returns a problem for each resource of which proxies refuse something, and for each proxy whose refusal has no known
// resource. It asks for all namespaces, because a resource may concern proxies of others than its own.
func (p program) refused(ctx context.Context) (found []Problem) {
	type about struct {
		Group, Kind, Space, Name, Path string
	}
	at, proxies := map[about]int{}, map[about]map[string]bool{}
	for _, r := range refusals.Known(ctx, p.Session, nil) {
		problem := ofRefusal(r)
		if !p.Namespace.All && problem.Space != p.Namespace.Name {
			continue
		}
		key := about{problem.Group, problem.Kind, problem.Space, problem.Name, problem.Path}
		if proxies[key] == nil {
			at[key], proxies[key] = len(found), map[string]bool{}
			found = append(found, problem)
		}
		proxies[key][r.GetNamespace()+"/"+r.GetProxy()] = true
	}
	for key, who := range proxies {
		if more := len(who) - 1; more > 0 {
			found[at[key]].Message += ", and so " + words.Counted(more, "other proxy does", "other proxies do")
		}
	}
	return found
}

// ofRefusal is what is wrong with a resource, or else with a proxy, by what the proxy refuses.
func ofRefusal(r *adminv1.RefusedResource) Problem {
	all := fmt.Sprintf("mcp-client proxy-status -n %s has all that is refused", r.GetNamespace())
	refuses := fmt.Sprintf("refuses the %s %s: %s", refusals.TypeOf(r), r.GetEnvoyResource(), words.FirstLine(r.GetReason()))
	of := r.GetResource()
	if of == nil {
		return Problem{
			Severity: severityError, Code: "refused", Kind: "Proxy", Space: r.GetNamespace(), Name: r.GetProxy(), Message: refuses,
			Hint: "it goes on with what it had of that; look for what this Envoy lacks, such as a file or a free port; " + all,
		}
	}
	return Problem{
		Severity: severityError, Code: "refused", Group: of.GetGroup(), Kind: of.GetKind(), Space: of.GetNamespace(), Name: of.GetName(), Path: words.FirstLine(r.GetPath()),
		Message: fmt.Sprintf("%s/%s %s", r.GetNamespace(), r.GetProxy(), refuses), Hint: mend(r) + "; " + all,
	}
}

// mend says how to end a refusal.
func mend(r *adminv1.RefusedResource) string {
	if r.GetRevision() == 0 {
		return "correct it where it comes from"
	}
	return fmt.Sprintf("correct it, or take back revision %d, which changed it last: mcp-client revert %d", r.GetRevision(), r.GetRevision())
}
