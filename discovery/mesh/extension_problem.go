package mesh

import (
	"fmt"
	"net/url"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
)

// extensionProblems lists extensions whose modules no agent can fetch, as far as that is known here.
func (m *Mesh) extensionProblems() (out []Problem) {
	if len(m.extensions.all) == 0 {
		return nil
	}
	for _, kind := range kindsOfExtensions {
		for r := range m.from.Of(kind) {
			out = append(out, m.problemsOf(m.extensions.all[r])...)
		}
	}
	return out
}

func (m *Mesh) problemsOf(e *Extension) (out []Problem) {
	if !e.IsFetched() {
		return nil
	}
	add := func(field, reason string) {
		path := "spec." + field
		if e.Resource.Kind == kindTrafficExtension {
			path = "spec.wasm." + field
		}
		out = append(out, Problem{Of: e.Resource.Key(), Path: path, Reason: reason})
	}
	w := e.Spec.GetWasm()
	if digest := digestIn(w.GetUrl()); digest != "" && w.GetSha256() != "" && digest != w.GetSha256() {
		add("sha256", "is not what the url says behind @sha256, and no module is both: "+consequence(w)+". Correct one of the two, or leave sha256 out")
	}
	if what := unreachable(w.GetUrl()); what != "" {
		add("url", fmt.Sprintf("agents fetch nothing from %s, unless their machines allow it: else %s. Have the module where all machines reach it", what, consequence(w)))
	}
	if key, pulls := e.PullSecret(); pulls {
		if s := m.secrets.last[key]; s != nil && s.Registries == nil {
			add("imagePullSecret", fmt.Sprintf("the secret %s names no registry: %s. Make it one of the type kubernetes.io/dockerconfigjson", key.FullName(), consequence(w)))
		}
	}
	return out
}

// consequence is what becomes of traffic without the module.
func consequence(w *extensions.WasmConfig) string {
	if w.GetFailStrategy() == extensions.FailStrategy_FAIL_OPEN {
		return "traffic passes without the module"
	}
	return "the traffic that it is for is refused"
}

// digestIn is the SHA-256 that the URL of an image names; "" for none.
func digestIn(written string) string {
	_, digest, _ := strings.Cut(written, "@sha256:")
	return digest
}

// unreachable says what is wrong with the address of a module as it is written; "" if nothing is.
// Agents judge each address that they connect to.
func unreachable(written string) string {
	at, err := url.Parse(ModuleURL(written))
	if err != nil {
		return ""
	}
	switch nearnessOf(at.Hostname()) {
	case onLoopback:
		return "the machine itself"
	case onMachine:
		return at.Hostname() + ", which is not the address of a single machine elsewhere"
	default:
		return ""
	}
}
