package packages

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Make builds the packages of a version for this machine's architecture in a folder. The script's
// output goes to about, which may be nil.
func Make(ctx context.Context, version, into string, about io.Writer, formats ...string) error {
	root, err := rootOfModule(ctx)
	if err != nil {
		return err
	}
	tools := exec.CommandContext(ctx, filepath.Join(root, "tools", "build-tools"), "nfpm")
	tools.Stderr = os.Stderr
	if err := tools.Run(); err != nil {
		return fmt.Errorf("compile nfpm: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "deploy", "packages", "build"))
	cmd.Env = append(os.Environ(), "VERSION="+version, "ARCHES="+runtime.GOARCH, "FORMATS="+strings.Join(formats, " "), "DIST="+into,
		"PATH="+filepath.Join(root, ".tools", "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("make packages: %w\n%s", err, out)
	}
	if about != nil {
		_, _ = about.Write(out)
	}
	return nil
}

func rootOfModule(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the folder of the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
