package resources

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/jsonschema"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// Schema returns the command schema.
func Schema(s *session.Session) *cobra.Command {
	p := program{s}
	var folder string
	cmd := &cobra.Command{
		Use:   "schema (KIND | --all DIR)",
		Short: "Print the JSON Schema of a kind, for editors and checks of files",
		Long: `Print the JSON Schema of a kind, by which editors complete, explain and check files, and other programs check them. No server is needed.

--all writes those of all kinds to a folder, as GROUP/KIND_VERSION.json, and all.json for files of any kind. A schema says less than pgmesh checks:
mcp-client validate says all.`,
		Example: `  mcp-client schema vs > virtualservice.json
  mcp-client schema --all schemas`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (folder == "") {
				return failure.Usage(cmd, errors.New("name a kind, such as vs, or a folder by --all"))
			}
			if folder != "" {
				return p.writeSchemas(folder)
			}
			kind, err := kinds.ByName(args[0])
			if err != nil {
				return failure.Usage(cmd, err)
			}
			return p.Print(string(jsonschema.Of(kind)))
		},
	}
	cmd.Flags().StringVar(&folder, "all", "", "write the schemas of all kinds to this folder")
	return cmd
}

// writeSchemas writes all schemas to a folder.
func (p program) writeSchemas(folder string) error {
	files := jsonschema.Files()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(folder, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make a folder for schemas: %w", err)
		}
		if err := os.WriteFile(file, files[path], 0o644); err != nil {
			return fmt.Errorf("write a schema: %w", err)
		}
	}
	return p.Printf("%d schemas are in %s; %s is for files of any kind\n", len(files), folder, filepath.Join(folder, jsonschema.AllPath))
}
