package resolver_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m) }
