package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

const (
	apiGateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: edge, namespace: shop}\nspec: {gatewayClassName: pgmesh, listeners: [{name: http, port: 80, protocol: HTTP}]}\n"
	apiRoute   = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web, namespace: shop}\nspec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: %s, port: 80}]}]}\n"
)

// told is what was reported last of the status of a resource, how often, and in which message.
func (r *reports) told(name string) (text string, times, message int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range r.messages {
		for _, s := range m.GetStatuses() {
			if s.GetResource().GetName() == name {
				text, message = s.GetStatus(), i
				times++
			}
		}
	}
	return text, times, message
}

func (b *bench) awaitTold(name, want string, times int) (message int) {
	b.t.Helper()
	poll.Within(b.t, 20*time.Second, func(context.Context) error {
		text, n, at := b.reports.told(name)
		message = at
		if n != times || !strings.Contains(text, want) {
			return fmt.Errorf("the status of %s was told %d times, at last as %s", name, n, text)
		}
		return nil
	})
	return message
}

// The status of a resource of the Gateway API is told when it differs, also while no proxy is there,
// and not after what it is of.
func TestStatusesOfTheGatewayAPIAreReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(apiGateway)
	b.awaitTold("edge", `"attachedRoutes":0`, 1)
	b.registers(fmt.Sprintf(apiRoute, "gone"), "v1")
	at := b.awaitTold("web", "BackendNotFound", 1)
	b.awaitTold("edge", `"attachedRoutes":1`, 2)
	poll.Within(t, 20*time.Second, func(context.Context) error {
		if b.reports.versionIn("web") < 0 {
			return errors.New("the version is not told")
		}
		return nil
	})
	require.GreaterOrEqual(t, b.reports.versionIn("web"), at)

	b.registers(fmt.Sprintf(apiRoute, "gone2"), "v2")
	b.awaitTold("web", "gone2", 2)
	b.registers(fmt.Sprintf(apiRoute, "gone2"), "")
	b.awaitTold("web", "", 3)
	text, _, _ := b.reports.told("web")
	require.Empty(t, text)
	b.awaitTold("edge", `"attachedRoutes":0`, 3)
}

// versionIn is the first message that tells a version of a resource; -1 for none.
func (r *reports) versionIn(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range r.messages {
		for _, v := range m.GetVersions() {
			if v.GetResource().GetName() == name {
				return i
			}
		}
	}
	return -1
}
