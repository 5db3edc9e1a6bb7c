package mesh

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// PullSecretVariable is what an extension's configuration has the secret in, as Istio's.
const PullSecretVariable = "ISTIO_META_WASM_IMAGE_PULL_SECRET" //nolint:gosec // a name

// PullSecret names the secret with which the extension's module is pulled: one of its own namespace,
// whatever namespace is written there. It is false if the extension names none, or needs none.
func (e *Extension) PullSecret() (kinds.Key, bool) {
	name := e.Spec.GetWasm().GetImagePullSecret()
	name = name[strings.LastIndex(name, "/")+1:]
	return kinds.Key{Kind: kinds.Secret, Namespace: e.Resource.Namespace, Name: name}, name != "" && e.IsFetched()
}

func (e *Extension) pulls() bool {
	_, pulls := e.PullSecret()
	return pulls
}

// PullSecrets are the secrets with which a proxy pulls the modules of its extensions, in the order
// of those that name one. A secret is nil if there is none, or if it is not for the proxy. The
// extension entitles the proxy to it, whichever namespace the proxy is in; a secret that names
// service accounts is for those alone.
func (m *Mesh) PullSecrets(p *Proxy) (out []*Secret) {
	for _, e := range m.Extensions(p) {
		if e.pulls() {
			out = append(out, m.PullSecret(e, p))
		}
	}
	return out
}

// PullSecret is the one of an extension for a proxy that it is for; nil if there is none. Without an
// agent that is known to take it out of what Envoy is given, a proxy has none: Envoy shows it to
// whoever asks, and quotes it when it refuses the extension.
func (m *Mesh) PullSecret(e *Extension, p *Proxy) *Secret {
	key, _ := e.PullSecret()
	s := m.secrets.last[key]
	if s == nil || s.Registries == nil || !s.isForAccount(p.ServiceAccount) || !p.PullsModules {
		return nil
	}
	return s
}

func (s *Secret) isForAccount(account string) bool {
	return len(s.accounts) == 0 || slices.Contains(s.accounts, account) || slices.Contains(s.accounts, anyAccount)
}

// agentOfIstioPulls reports whether Istio's agent of a version takes pull secrets out of what it gives
// to Envoy: since 1.14 out of plugins for HTTP, since 1.20 out of those for TCP. Older ones pass them
// on. Without a number, as of builds of one's own, it is not known.
func agentOfIstioPulls(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 {
		return false
	}
	return major > 1 || major == 1 && minor >= 20
}

// pullAccount is the service account of a proxy that pulls modules with secrets, if what it may pull
// depends on that.
func (m *Mesh) pullAccount(p *Proxy) string {
	if p.PullsModules && slices.ContainsFunc(m.Extensions(p), (*Extension).pulls) {
		return "sa/" + p.ServiceAccount
	}
	return ""
}
