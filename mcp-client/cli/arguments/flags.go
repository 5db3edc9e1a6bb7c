package arguments

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/days"
)

// meantFlags say what takes the place of flags of kubectl and istioctl, by command.
var meantFlags = map[string]map[string]string{
	"apply": {
		"server-side": wholly, "force-conflicts": overwriting, "force": overwriting, "field-manager": author, "record": reason,
		"prune": "mcp-client import --prune --prune-namespace NAMESPACE deletes what is not in the files", "validate": checked,
	},
	"create":  {"validate": checked, "field-manager": author, "record": reason},
	"replace": {"validate": checked, "field-manager": author, "record": reason, "force": overwriting},
	"delete":  {"grace-period": atOnce, "force": atOnce, "now": atOnce, "cascade": "what refers to a resource stays: mcp-client delete --dry-run says what would go wrong"},
	"diff":    {"server-side": wholly, "force-conflicts": overwriting, "field-manager": author},
	"get": {
		"f": ofFile, "filename": ofFile,
		"watch-only": changes, "output-watch-events": changes,
	},
	"describe": {"f": ofFile, "filename": ofFile},
	"label":    {"list": "mcp-client get KIND NAME --show-labels lists them"},
	"annotate": {"list": "mcp-client get KIND NAME -o yaml shows them"},
	"problems": {
		"suppress": "nothing is hidden: -o json has the code of each, for jq to choose by",
	},
}

// meantEverywhere says the same of flags that kubectl has for all commands.
var meantEverywhere = map[string]string{
	"as": myself, "as-group": myself, "as-uid": myself,
	"kubeconfig": "servers and credentials are in contexts: mcp-client context set makes one, and --context names it",
}

const (
	ofFile      = "what a file has is compared with what is there by mcp-client diff -f FILE; here a resource is named by KIND NAME"
	changes     = "changes alone, each with what it did, are those of mcp-client watch -o json"
	myself      = "nobody acts in the name of another: --context chooses other credentials, and mcp-client whoami tells whose they are"
	wholly      = "fields have no owners here: a file replaces the whole of a resource, and mcp-client patch changes a part"
	overwriting = "a file overwrites what is there, unless it has a metadata.resourceVersion: leave that out"
	author      = "the server keeps who has changed what: see mcp-client blame"
	reason      = "-m says why, which mcp-client history shows"
	checked     = "files are always checked: mcp-client validate does that alone"
	atOnce      = "a resource is gone at once: --wait waits until proxies have dropped it, too"
)

// flagElsewhere adds to the error of an unknown flag what takes its place, and to that of a duration how one is written; nil if
// there is nothing to add.
func flagElsewhere(cmd *cobra.Command, err error) error {
	if missing, unknown := errors.AsType[*pflag.NotExistError](err); unknown {
		flag := missing.GetSpecifiedName()
		if says := cmp.Or(meantFlags[cmd.Name()][flag], meantEverywhere[flag]); says != "" {
			return fmt.Errorf("%w (%s)", err, says)
		}
	}
	wrong, invalid := errors.AsType[*pflag.InvalidValueError](err)
	if !invalid {
		return nil
	}
	if _, says := wrong.GetFlag().Value.(*days.Flag); !says && wrong.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("%w (write a time with its unit, such as 30s, 5m or 1h30m)", err)
	}
	return nil
}
