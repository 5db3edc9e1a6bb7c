package files

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
)

// kustomized begins what Files returns for a kustomization, which no path of a file begins with.
const kustomized = "\x00"

// builders are the programs that build a kustomization, the first of which is taken that is there.
var builders = [][]string{{"kustomize", "build"}, {"kubectl", "kustomize"}}

// DeclareKustomize declares --kustomize.
func (s *Sources) DeclareKustomize(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.kustomization, "kustomize", "k", "", "a folder with a kustomization, which kustomize builds, or kubectl: one of them has to be installed")
}

// kustomize has a kustomization built, and returns its resources.
func kustomize(folder string) ([]byte, error) {
	for _, b := range builders {
		path, err := exec.LookPath(b[0])
		if err != nil {
			continue
		}
		var wrong bytes.Buffer
		cmd := exec.Command(path, b[1], folder) //nolint:noctx // Ctrl-C ends it with this program
		cmd.Stderr = &wrong
		built, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s %s: %w: %s", b[0], b[1], folder, err, strings.TrimSpace(wrong.String()))
		}
		return built, nil
	}
	return nil, errors.New("neither kustomize nor kubectl is installed here, of which one has to build a kustomization: " +
		"install one, or build it where there is one, and give what is built to -f -: kustomize build " + folder)
}
