package gatewayapi_test

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// profiles are those that pgmesh is held to.
var profiles = []suite.ConformanceProfileName{
	suite.GatewayHTTPConformanceProfileName, suite.GatewayGRPCConformanceProfileName, suite.GatewayTLSConformanceProfileName, suite.GatewayUDPConformanceProfileName,
	suite.MeshHTTPConformanceProfileName, suite.MeshGRPCConformanceProfileName,
}

// TestConformance runs the suite. Its flags are the suite's own: -run-test HTTPRouteWeight runs one
// test, -report-output names the file of the report.
func TestConformance(t *testing.T) {
	if bin == "" {
		t.Skip("there is no cluster to run the suite in: make conformance-gateway-api builds one")
	}
	results.report = flag.Lookup("report-output").Value.String()
	if results.report == "" {
		results.report = filepath.Join(bin, "report.yaml")
	}
	w := newWorld(t, filepath.Join(filepath.Dir(results.report), "logs"))
	t.Setenv("KUBECONFIG", w.kubeconfig)
	defer w.end()
	t.Run("Suite", func(t *testing.T) {
		options := configured(t)
		results.whole = options.RunTest == "" && flag.Lookup("conformance-profiles").Value.String() == ""
		conformance.RunConformanceWithOptions(t, options)
	})
	results.ended = true
	require.NotEmpty(t, results.outcomes)
}

// configured are the suite's options, by its flags and by what is so for pgmesh.
func configured(t *testing.T) suite.ConformanceOptions {
	t.Helper()
	options := conformance.DefaultOptions(t)
	options.GatewayClassName = gatewayapi.Class
	options.CleanupBaseResources = false // the cluster ends with the test
	options.Hook = record
	of := gatewayv1.IPAddressType
	options.UsableNetworkAddresses = []gatewayv1.GatewaySpecAddress{{Type: &of, Value: usable.Addr().String()}}
	options.UnusableNetworkAddresses = []gatewayv1.GatewaySpecAddress{{Type: &of, Value: unusable.String()}}
	if options.ConformanceProfiles == nil {
		options.ConformanceProfiles = profiles
	}
	if options.SupportedFeatures == nil {
		options.SupportedFeatures = claimed(t, options.Client)
	}
	options.Implementation = confv1.Implementation{
		Organization: "pgmesh", Project: "pgmesh", URL: "https://github.com/pgmesh/pgmesh", Version: "main", Contact: []string{"https://github.com/pgmesh/pgmesh/issues"},
	}
	options.ReportOutputPath = results.report
	return options
}

// claimed are the features that pgmesh says it has, in the status of its GatewayClass.
func claimed(t *testing.T, c client.Client) (out []features.FeatureName) {
	t.Helper()
	poll.Eventually(t, func(ctx context.Context) error {
		var class gatewayv1.GatewayClass
		if err := c.Get(ctx, client.ObjectKey{Name: gatewayapi.Class}, &class); err != nil {
			return err
		}
		for _, f := range class.Status.SupportedFeatures {
			out = append(out, features.FeatureName(f.Name))
		}
		if len(out) == 0 {
			return errors.New("the GatewayClass has no features in its status")
		}
		return nil
	})
	return out
}
