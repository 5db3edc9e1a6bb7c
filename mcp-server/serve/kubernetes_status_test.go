package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

var written = regexp.MustCompile(`pgmesh_mcp_server_origin_status_writes_total\{registry="kubernetes",result="done"\} ([1-9]\d*)`)

// Of several servers one writes statuses to a cluster. When it is gone, another goes on.
func TestOneServerWritesStatusesOfKubernetes(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.Namespace("shop")
	c.InstallIstio()
	apply := func(name string) {
		c.Apply("/apis/networking.istio.io/v1/namespaces/shop/virtualservices/"+name, kubetest.Object{
			"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": kubetest.Object{"name": name},
			"spec": kubetest.Object{"hosts": []string{name + ".example.com"}, "http": []kubetest.Object{{"directResponse": kubetest.Object{"status": 200}}}},
		})
	}
	accepted := func(name string) {
		t.Helper()
		poll.Eventually(t, func(context.Context) error {
			var o struct {
				Status struct {
					Conditions []struct{ Type, Status string }
				}
			}
			if err := json.Unmarshal(c.Get("/apis/networking.istio.io/v1/namespaces/shop/virtualservices/"+name), &o); err != nil {
				return err
			}
			if all := o.Status.Conditions; len(all) < 2 || all[0].Type != "Accepted" || all[0].Status != "True" {
				return fmt.Errorf("it says %v", all)
			}
			return nil
		})
	}
	registries := serve.Registries{URLs: []string{"kubernetes://" + c.Kubeconfig(c.Address, c.Admin()) + "?services=false&status=true"}}
	bridge := serve.Options{Registries: registries, Listen: "127.0.0.1:0", Log: discard}
	bridge.HTTP.Address, bridge.Plaintext.Allowed = "127.0.0.1:0", true
	require.ErrorContains(t, serve.Run(t.Context(), bridge, nil), "give --database, or leave status=true out", "what became of anything is in a database")

	database := pgtest.New(t)
	apply("one")
	first := launch(t, serve.Options{Database: database, Registries: registries, Name: "first"})
	accepted("one")
	second := launch(t, serve.Options{Database: database, Registries: registries, Name: "second"})
	apply("two")
	accepted("two")
	_, metrics := second.get("/metrics")
	require.NotRegexp(t, written, metrics)
	require.Contains(t, metrics, `pgmesh_mcp_server_origin_status_waiting{registry="kubernetes"} 0`)
	_, metrics = first.get("/metrics")
	require.Regexp(t, written, metrics)
	first.end()
	apply("three")
	accepted("three")
	poll.Eventually(t, func(context.Context) error {
		if _, metrics := second.get("/metrics"); !written.MatchString(metrics) {
			return errors.New("the second has written nothing")
		}
		return nil
	})
}
