package consul_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// The service of docs/consul.md, registered with a real agent, becomes what the page says.
func TestTheServiceOfThePage(t *testing.T) {
	t.Parallel()
	page := registrytest.ReadPage(t, "../../docs/consul.md")
	var service consultest.Config
	require.NoError(t, json.Unmarshal([]byte(page.Block(t, "json")), &service))
	c := consultest.Start(t, nil)
	c.Put("/v1/agent/service/register", service)
	w := watch(t, c.Address, "hosts=short")
	w.Until(t, "the service of the page", func() bool { return w.All["consul.web"] != nil })
	w.Lock()
	defer w.Unlock()
	page.Becomes(t, w.All["consul.web"])
}
