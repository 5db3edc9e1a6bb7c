package containers_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/deploy/containers/containerfile"
)

const compose = root + "/deploy/compose"

// file is the subset of the compose format that compose.yaml uses. Other keys are an error.
type file struct {
	Name     string              `yaml:"name"`
	Services map[string]*service `yaml:"services"`
	Volumes  map[string]any      `yaml:"volumes"`
	Once     any                 `yaml:"x-once"`
	Database any                 `yaml:"x-database"`
	Admin    any                 `yaml:"x-admin"`
	Agent    any                 `yaml:"x-agent"`
}

type service struct {
	Image string `yaml:"image"`
	Build *struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
		Target     string `yaml:"target"`
	} `yaml:"build"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
		Restart   bool   `yaml:"restart"`
	} `yaml:"depends_on"`
	HealthCheck *struct {
		Test        []string `yaml:"test"`
		Interval    string   `yaml:"interval"`
		Timeout     string   `yaml:"timeout"`
		StartPeriod string   `yaml:"start_period"`
	} `yaml:"healthcheck"`
	NetworkMode string   `yaml:"network_mode"`
	Hostname    string   `yaml:"hostname"`
	User        string   `yaml:"user"`
	Ports       []string `yaml:"ports"`
	Restart     string   `yaml:"restart"`
	Grace       string   `yaml:"stop_grace_period"`
}

func composed(t *testing.T) *file {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(compose, "compose.yaml"))
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var f file
	require.NoError(t, decoder.Decode(&f))
	return &f
}

func (s *service) target() string {
	if s.Build == nil {
		return ""
	}
	return s.Build.Target
}

func TestComposeReferences(t *testing.T) {
	f := composed(t)
	stages := read(t).Stages
	used := map[string]bool{}
	for name, s := range f.Services {
		if s.Build != nil {
			require.Contains(t, stages, s.Build.Target, name)
			require.FileExists(t, filepath.Join(compose, s.Build.Context, s.Build.Dockerfile), name)
			require.Equal(t, "pgmesh/"+s.Build.Target+":compose", s.Image, "two targets under one name")
		}
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(from, ".") {
				_, err := os.Stat(filepath.Join(compose, from))
				require.NoError(t, err, "%s of %s", volume, name)
				continue
			}
			require.Contains(t, f.Volumes, from, "%s of %s", volume, name)
			used[from] = true
		}
		for other, how := range s.DependsOn {
			waits(t, name, other, f.Services[other], how.Condition)
		}
		if other, ok := strings.CutPrefix(s.NetworkMode, "service:"); ok {
			require.Contains(t, s.DependsOn, other, "%s is in the network of %s", name, other)
		}
	}
	for volume := range f.Volumes {
		require.True(t, used[volume], "nobody uses the volume %s", volume)
	}
	inOrder(t, f)
}

// waits checks that the condition a service waits for can come true.
func waits(t *testing.T, name, other string, s *service, condition string) {
	t.Helper()
	require.NotNil(t, s, "%s waits for %s", name, other)
	switch condition {
	case "service_healthy":
		require.NotNil(t, s.HealthCheck, "%s waits for %s to be healthy", name, other)
	case "service_completed_successfully":
		require.Equal(t, "no", s.Restart, "%s waits for the end of %s", name, other)
	default:
		require.Equal(t, "service_started", condition, "%s and %s", name, other)
	}
}

// inOrder returns the names of the services, each after those that it waits for.
func inOrder(t *testing.T, f *file) []string {
	t.Helper()
	var order []string
	for len(order) < len(f.Services) {
		before := len(order)
		for name, s := range f.Services {
			waiting := false
			for other := range s.DependsOn {
				waiting = waiting || !slices.Contains(order, other)
			}
			if !waiting && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		require.Greater(t, len(order), before, "services wait for each other; started are %v", order)
	}
	return order
}

var called = regexp.MustCompile(`^(mcp-server|mcp-client) ([^>]*)( > \S+)?$`)

func TestComposeCommandLines(t *testing.T) {
	stages := read(t).Stages
	for name, s := range composed(t).Services {
		switch target := s.target(); target {
		case "":
		case "setup":
			require.Len(t, s.Command, 1, name)
			said, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", s.Command[0]).CombinedOutput()
			require.NoError(t, err, "%s: %s", name, said)
			for line := range strings.SplitSeq(s.Command[0], "\n") {
				if strings.HasPrefix(line, "mcp-") {
					parts := called.FindStringSubmatch(line)
					require.NotNil(t, parts, "%s: %s", name, line)
					understood(t, parts[1], strings.Fields(parts[2]))
				}
			}
		default:
			help := understood(t, target, s.Command)
			for variable := range s.Environment {
				require.Contains(t, help, "--"+flagOf(variable)+" ", "%s of %s", variable, name)
			}
			if s.HealthCheck != nil {
				healthy(t, name, stages[target], s.HealthCheck.Test)
			}
		}
	}
}

// healthy checks that a health check is that of the image.
func healthy(t *testing.T, name string, image *containerfile.Stage, test []string) {
	t.Helper()
	require.Equal(t, "CMD", test[0], "there is no shell in the image of %s", name)
	for _, word := range test[1:] {
		require.Contains(t, image.Last("HEALTHCHECK"), `"`+word+`"`, "%s: its image is asked otherwise", name)
	}
}

func TestComposeMeshIsValid(t *testing.T) {
	build(t)
	said, err := exec.CommandContext(t.Context(), program("mcp-client"), "validate", "--strict", filepath.Join(compose, "mesh.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", said)

	page, err := os.ReadFile(filepath.Join(root, "docs/machines.md"))
	require.NoError(t, err)
	mesh, err := os.ReadFile(filepath.Join(compose, "mesh.yaml"))
	require.NoError(t, err)
	resources := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(mesh), "") // without what is for editors and readers
	require.Contains(t, string(page), "<<'END'\n"+resources+"END\n", "mesh.yaml and docs/machines.md tell the mesh different things")
}

func TestMachinesAreOutOfReachOfOthersSecrets(t *testing.T) {
	f := composed(t)
	for name, s := range f.Services {
		for _, volume := range s.Volumes {
			from, rest, _ := strings.Cut(volume, ":")
			switch from {
			case "key":
				require.Contains(t, []string{"key", "mcp-server", "admin"}, name, "%s has the key", name)
			case "admin":
				require.Contains(t, []string{"admin", "mesh", "join"}, name, "%s can be an administrator", name)
			case "api-token", "web-token", "discovery-token":
				require.True(t, strings.HasSuffix(rest, ":ro") && name+"-token" == from || s.target() == "setup", "%s has the token of another", name)
			}
		}
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s is open to others at %s", name, port)
		}
	}
}

func TestApplicationIsNotHealthyWithoutTheOther(t *testing.T) {
	web := composed(t).Services["web-app"]
	check := web.HealthCheck.Test[len(web.HealthCheck.Test)-1]
	_, path, _ := strings.Cut(check, ":8088/")
	for _, c := range []struct{ wget, begins, has string }{
		{"echo hello from api", "Content-Type: ", "hello from api\n"},
		{"exit 1", "Status: 502 ", "does not answer"},
	} {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "wget"), []byte("#!/bin/sh\n"+c.wget+"\n"), 0o755))
		cmd := exec.CommandContext(t.Context(), filepath.Join(compose, "web", path))
		cmd.Env = []string{"PATH=" + folder}
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.True(t, strings.HasPrefix(string(said), c.begins), "%s", said)
		require.Contains(t, string(said), c.has)
	}
}
