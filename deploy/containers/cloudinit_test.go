package containers_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// cloudConfig is the subset of cloud-init's format that the examples use.
type cloudConfig struct {
	Update   bool       `yaml:"package_update"`
	Packages []string   `yaml:"packages"`
	Files    []written  `yaml:"write_files"`
	Commands [][]string `yaml:"runcmd"`
}

type written struct {
	Path        string `yaml:"path"`
	Owner       string `yaml:"owner"`
	Permissions string `yaml:"permissions"`
	Content     string `yaml:"content"`
}

func TestCloudInit(t *testing.T) {
	build(t)
	for name, secret := range map[string]string{"machine.yaml": "/etc/mesh-agent/join.token", "machine-jwt.yaml": ""} {
		t.Run(name, func(t *testing.T) {
			config := cloud(t, name)
			files := map[string]written{}
			for _, f := range config.Files {
				require.Equal(t, "root:root", f.Owner, "%s: no other account is there yet", f.Path)
				files[f.Path] = f
			}
			settings(t, files)
			require.Len(t, config.Commands, 1)
			script, ok := files[config.Commands[0][0]]
			require.True(t, ok && script.Permissions == "0700", "the command is a file that is written before")
			said, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", script.Content).CombinedOutput()
			require.NoError(t, err, "%s", said)
			require.Contains(t, script.Content, "--force-confold", "dpkg would ask what to do about the file of settings that is there")
			require.Contains(t, script.Content, "\nsystemctl enable --now mesh-agent\n")
			if secret == "" {
				return
			}
			require.Equal(t, "0600", files[secret].Permissions)
			_, after, _ := strings.Cut(script.Content, "systemctl enable --now mesh-agent\n")
			require.Contains(t, after, "rm -f "+secret, "the token stays")
		})
	}
}

func cloud(t *testing.T, name string) *cloudConfig {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/cloud-init", name))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(text, []byte("#cloud-config\n")), "cloud-init does not know what it is")
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	config := &cloudConfig{}
	require.NoError(t, decoder.Decode(config))
	return config
}

// settings has the agent parse the settings in the example, and checks that the example writes the
// files they name.
func settings(t *testing.T, files map[string]written) {
	t.Helper()
	own := files["/etc/mesh-agent/mesh-agent.yaml"]
	require.Equal(t, "0644", own.Permissions)
	path := filepath.Join(t.TempDir(), "mesh-agent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(own.Content), 0o644))
	said, err := exec.CommandContext(t.Context(), program("mesh-agent"), "settings", "--config", path).CombinedOutput()
	require.NoError(t, err, "%s", said)
	keys := map[string]string{}
	require.NoError(t, yaml.Unmarshal([]byte(own.Content), &keys))
	for key, value := range keys {
		require.Regexp(t, key+`\s+`+value+`\s+`+path, string(said))
		if strings.HasPrefix(value, "/etc/") {
			require.Contains(t, files, value, "%s is not written", key)
		}
	}
}
