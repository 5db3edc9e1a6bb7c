package containers_test

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/containers/containerfile"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

const root = "../.."

var programs = []string{"mcp-server", "mcp-client", "discovery", "mesh-agent"}

// out is the folder of the programs built with the line of the Containerfile.
var out string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pgmesh-containers-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	out = dir
	return pgtest.Main(m)
}

func read(t *testing.T) *containerfile.File {
	t.Helper()
	file, err := containerfile.Read("Containerfile")
	require.NoError(t, err)
	return file
}

func list(t *testing.T, s *containerfile.Stage, word string) []string {
	t.Helper()
	words, err := s.List(word)
	require.NoError(t, err)
	return words
}

// ignored reports whether .dockerignore excludes a path of the repository from the build.
func ignored(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	is := false
	for line := range strings.SplitSeq(string(text), "\n") {
		pattern, but := strings.CutPrefix(line, "!")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case pattern == "*" || path == pattern || strings.HasPrefix(path, pattern+"/"):
			is = !but
		}
	}
	return is
}

// context copies the build context into a folder.
func context(t *testing.T) string {
	t.Helper()
	into := t.TempDir()
	listed := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	listed.Dir = root
	names, err := listed.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if ignored(t, name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		require.NoError(t, err, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(into, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(into, name), content, 0o600))
	}
	return into
}

const version = "1.2.3~rc1"

var building sync.Once

// build compiles the programs with the very line of the Containerfile, from the files that
// .dockerignore admits.
func build(t *testing.T) {
	t.Helper()
	building.Do(func() {
		stages := read(t).Stages
		var line string
		for _, run := range stages["build"].All("RUN") {
			if strings.Contains(run, "go build") {
				line = run
			}
		}
		require.Contains(t, line, " -o /out/ ")
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", strings.Replace(line, " /out/ ", " "+out+"/ ", 1))
		cmd.Dir = context(t)
		cmd.Env = append(os.Environ(), "VERSION="+version, "TARGETARCH=")
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, said)
	})
	require.FileExists(t, program("ready"), "the programs were not compiled: see the first test that failed")
}

func program(name string) string { return filepath.Join(out, name) }

func TestProgramsAreCompiledLikePackages(t *testing.T) {
	build(t)
	for _, name := range append([]string{"ready"}, programs...) {
		file, err := elf.Open(program(name))
		require.NoError(t, err)
		for _, p := range file.Progs {
			require.NotEqual(t, elf.PT_INTERP, p.Type, "%s is not static, and there is no libc in its image", name)
		}
		require.Nil(t, file.Section(".symtab"), "%s is not stripped", name)
		require.NoError(t, file.Close())
		made, err := buildinfo.ReadFile(program(name))
		require.NoError(t, err)
		require.Contains(t, made.Settings, debug.BuildSetting{Key: "-tags", Value: "grpcnotrace"}, "%s is not compiled as tools/program-flags says", name)
	}
	for _, name := range programs {
		asked := map[bool]string{true: "version", false: "--version"}[name == "mcp-client"]
		said, err := exec.CommandContext(t.Context(), program(name), asked).Output()
		require.NoError(t, err)
		require.Contains(t, string(said), version)
	}

	script, err := os.ReadFile(filepath.Join(root, "deploy/packages/build"))
	require.NoError(t, err)
	flags := regexp.MustCompile(`(?s)(CGO_ENABLED=0) GOOS="\$\{4:-linux\}" .*?go -C "\$1" (build -trimpath .*?-ldflags ".*?)\$`).FindStringSubmatch(string(script))
	require.NotNil(t, flags)
	stages := read(t).Stages
	line := strings.Join(stages["build"].All("RUN"), "\n")
	require.Contains(t, line, flags[1]+" GOOS=linux")
	require.Contains(t, line, strings.Join(strings.Fields(strings.ReplaceAll(flags[2], "\\\n", " ")), " "), "other flags than those of packages")
}

func TestBuildContext(t *testing.T) {
	for _, path := range []string{".git/config", ".tools/envoy/envoy", "bin/discovery", "dist/tree", ".demo/database-url", "secrets.key", "deploy/compose/compose.yaml"} {
		require.True(t, ignored(t, path), path)
	}
	listed, err := fs.ReadDir(os.DirFS(root), ".")
	require.NoError(t, err)
	for _, entry := range listed {
		if strings.HasPrefix(entry.Name(), ".") {
			require.True(t, ignored(t, entry.Name()), entry.Name())
		}
	}
}

func TestBaseImagesMatchModule(t *testing.T) {
	file := read(t)
	stages, args := file.Stages, file.Args
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^go `+regexp.QuoteMeta(args["GO"])+`(\.\d+)?$`, string(module), "the Containerfile has another Go than go.mod")
	fetch, err := os.ReadFile(filepath.Join(root, "tools/fetch-envoy"))
	require.NoError(t, err)
	require.Contains(t, string(fetch), "\nversion="+args["ENVOY"]+"\n", "the Containerfile has another Envoy than the tests")
	require.Equal(t, "docker.io/envoyproxy/envoy:distroless-v${ENVOY}", args["ENVOY_BASE"])
	require.Equal(t, "docker.io/library/golang:${GO}", args["BUILD_BASE"])
	for stage, base := range map[string]string{"build": "BUILD_BASE", "mesh-agent": "ENVOY_BASE", "setup": "SETUP_BASE"} {
		require.Equal(t, "${"+base+"}", stages[stage].From, "a base cannot be named by digest")
	}
	for _, name := range []string{"mcp-server", "mcp-client", "discovery"} {
		from := stages[name].From
		if base := stages[from]; base != nil {
			from = base.From
		}
		require.Equal(t, "scratch", from, name)
	}
}

func TestTargets(t *testing.T) {
	build(t)
	stages := read(t).Stages
	made := made(t, stages["build"])
	for _, name := range append([]string{"setup"}, programs...) {
		s := stages[name]
		require.NotNil(t, s, name)
		require.Equal(t, "65532:65532", s.Last("USER"), "%s runs as another", name)
		require.Equal(t, "USER", lastOf(s, "USER", "COPY", "RUN"), "%s: what comes after USER", name)
		require.NotEmpty(t, list(t, s, "ENTRYPOINT"), name)
		labels := strings.Join(s.All("LABEL"), "\n")
		for _, label := range []string{"title", "description", "source", "documentation", "licenses", "vendor", "version"} {
			require.Regexp(t, `(?m)^org\.opencontainers\.image\.`+label+`="[^"]+"$`, labels, name)
		}
		require.Contains(t, s.All("ARG"), "VERSION=0.0.0", "%s has a label by it", name)
		for _, rest := range s.All("COPY") {
			copied(t, name, rest, made)
		}
		if name != "setup" {
			starts(t, s)
		}
	}
	agent := stages["mesh-agent"]
	require.Contains(t, list(t, agent, "CMD"), "--tie-envoy")
}

// made lists the files and folders of the build stage that other stages may copy.
func made(t *testing.T, build *containerfile.Stage) []string {
	t.Helper()
	found := []string{"/etc/ssl/certs/ca-certificates.crt"} // golang's image is Debian with ca-certificates
	for _, name := range append([]string{"ready"}, programs...) {
		require.FileExists(t, program(name))
		found = append(found, "/out/"+name)
	}
	require.Equal(t, "/src", build.Last("WORKDIR"))
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, entry := range entries {
		if !ignored(t, entry.Name()) {
			found = append(found, "/src/"+entry.Name())
		}
	}
	for _, rest := range build.All("RUN") {
		if folders, ok := strings.CutPrefix(rest, "mkdir -p "); ok {
			folders, _, _ = strings.Cut(folders, " &&")
			found = append(found, strings.Fields(folders)...)
			found = append(found, "/run/pgmesh")
		}
	}
	return found
}

func copied(t *testing.T, name, rest string, made []string) {
	t.Helper()
	words := strings.Fields(rest)
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		words = words[1:]
	}
	require.Len(t, words, 2, "COPY %s of %s", rest, name)
	require.Contains(t, rest, "--from=build", name)
	require.Contains(t, made, words[0], "COPY %s of %s", rest, name)
}

func lastOf(s *containerfile.Stage, words ...string) string {
	for _, line := range slices.Backward(s.Lines) {
		if slices.Contains(words, line.Word) {
			return line.Word
		}
	}
	return ""
}

// starts has a target's program parse the command line and the environment of its image.
func starts(t *testing.T, s *containerfile.Stage) {
	t.Helper()
	entry := list(t, s, "ENTRYPOINT")
	require.Equal(t, []string{"/usr/bin/" + s.Name}, entry)
	help := understood(t, s.Name, list(t, s, "CMD"))
	for _, variable := range s.All("ENV") {
		name, _, _ := strings.Cut(variable, "=")
		require.Contains(t, help, "--"+flagOf(name)+" ", "%s of %s", variable, s.Name)
	}
	check := s.Last("HEALTHCHECK")
	if s.Name == "mcp-client" {
		require.Empty(t, check, "nothing goes on in it")
		return
	}
	_, list, ok := strings.Cut(check, " CMD ")
	require.True(t, ok, check)
	var words []string
	require.NoError(t, json.Unmarshal([]byte(list), &words))
	if s.Name == "mesh-agent" {
		require.Equal(t, entry[0], words[0])
		understood(t, s.Name, words[1:])
		return
	}
	require.Equal(t, "/usr/bin/ready", words[0])
	require.Contains(t, help, `"`+strings.TrimSuffix(strings.TrimPrefix(words[1], "http://"), "/readyz")+`"`, "that is not where it serves /readyz")
}

func flagOf(variable string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "PGMESH_")), "_", "-")
}

// understood has a program parse a command line with --help added, and returns the help.
func understood(t *testing.T, name string, words []string) string {
	t.Helper()
	build(t)
	help, err := exec.CommandContext(t.Context(), program(name), append(slices.Clone(words), "--help")...).CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, words, help)
	return string(help)
}

func TestUnknownFlagIsFound(t *testing.T) {
	build(t)
	for _, name := range programs {
		said, err := exec.CommandContext(t.Context(), program(name), "--no-such-flag", "--help").CombinedOutput()
		require.Error(t, err, name)
		require.Contains(t, string(said), "no-such-flag")
	}
}
