package arguments

import "maps"

// Program is what people know before they come here, with its commands that are others here.
type Program struct {
	Name string // "" are words of many programs
	// Words says what each is here. A key is what people type after the name of the program; a value is a command with
	// what belongs to it, or, if it begins with a capital letter, a sentence about what is not here.
	Words map[string]string
}

// Programs lists them. docs/commands.md has the same table.
func Programs() []Program { return programs }

var programs = []Program{
	{"kubectl", map[string]string{
		"api-resources": "kinds", "api-versions": "kinds -o wide", "cluster-info": "status", "events": "history", "set": "patch",
		"ctx": "context", "ns": "namespaces", "run": "apply", "expose": "apply",
		"logs": "Logs are of the programs on each machine: sudo mesh-agent logs, or journalctl -u mesh-agent", "top": "Numbers are at /metrics of each program, which Prometheus reads",
		"exec": noContainers, "attach": noContainers, "cp": noContainers, "port-forward": "Envoy's admin API is asked on the machine: sudo mesh-agent envoy config, or ssh -L", "debug": noContainers,
		"scale": noContainers, "autoscale": noContainers, "cordon": noContainers, "taint": noContainers,
		"drain": "A machine is drained on it: mesh-agent drain", "uncordon": "A machine is taken back on it: mesh-agent undrain",
		"kustomize":    "Kustomizations are built by kustomize or kubectl: mcp-client apply -k FOLDER has one of them do it",
		"rollout undo": takenBack, "rollout restart": "Proxies take changes without a restart; rollout status tells which do",
		"context use-context": "context use", "context get-contexts": "context list", "context current-context": "context show", "context set-context": "context set", "context delete-context": "context delete",
		"context view": "context list -o yaml", "context set-cluster": "context set", "context set-credentials": "context set",
		"context current": "context show", "context unset": "context set NAME --unset FLAG", "context rename": renamed, "context rename-context": renamed,
		"create namespace": noNamespaces, "create ns": noNamespaces, "create token": "token create", "create serviceaccount": noAccounts, "create sa": noAccounts,
		"create secret generic": "create secret ca", "create role": "token create", "create rolebinding": "token create", "create clusterrolebinding": "token create",
		"auth whoami": "whoami", "options": "Flags of all commands are in the help of each: mcp-client --help",
	}},
	{"istioctl", map[string]string{
		"auth check": "authz check", "precheck": "problems", "experimental": experimental, "x": experimental,
		"install": installed, "verify-install": "status", "upgrade": installed, "uninstall": installed, "operator": installed, "manifest": installed, "profile": installed,
		"kube-inject": "Nothing is injected: mesh-agent runs the Envoy of a machine; mcp-client token create lets one join", "dashboard": pages, "dash": pages,
		"admin": "How much the programs log is a flag of each: --log-level", "authn": "authz check",
		"bug-report": "Each machine collects its own: sudo mesh-agent bug-report; mcp-client status tells how the server fares", "remote-clusters": "proxy-status", "create-remote-secret": "trust add", "waypoint": noWaypoints, "ztunnel-config": noWaypoints, "tag": installed,
		"workload":         "token create",
		"proxy-config log": logging, "proxy-config bootstrap": bootstrap,
		"proxy-config b": bootstrap, "proxy-config o": logging,
		"proxy-config ecds": "Plugins of a proxy are in mcp-client proxy-config all, and on the machine in sudo mesh-agent envoy config",
	}},
	{"kumactl", map[string]string{
		"inspect": "describe", "generate": "token create", "zone": "proxy-status", "dataplanes": "proxy-status", "install": installed, "uninstall": installed, "list": "get",
		"context control-planes": "context",
	}},
	{"", map[string]string{
		"ls": "get", "show": "get", "list-kinds": "kinds", "rm": "delete", "del": "delete", "remove": "delete", "destroy": "delete", "update": "apply", "put": "apply", "upsert": "apply",
		"undo": "revert", "rollback": "revert", "log": "history", "lint": "validate", "check": "analyze", "login": "context set", "tail": "watch", "follow": "watch",
		"id": "whoami", "certificates": "authority show", "certs": "authority show", "dump": "export", "backup": "snapshot save",
		"endpoints": "services", "can-i": "auth can-i", "kind": "kinds", "migrate": "convert", "blocker": "blockers",
	}},
}

// meant has the words of all programs.
var meant = func() map[string]string {
	all := map[string]string{}
	for _, p := range programs {
		maps.Copy(all, p.Words)
	}
	return all
}()

const (
	takenBack    = "A resource is made what it was by mcp-client restore KIND/NAME --to REVISION, and mcp-client history KIND NAME lists its revisions; to take back all of one revision: mcp-client revert REVISION"
	renamed      = "A context keeps its name: make another with mcp-client context set NAME and the flags that mcp-client context show OLD lists, and take the old one away with mcp-client context delete OLD"
	noContainers = "A mesh of machines has no containers: use what the machine has, such as ssh and systemctl"
	noNamespaces = "A namespace is there as soon as something is in it: mcp-client namespaces"
	noAccounts   = "A service account is a name, which a join token gives a machine: mcp-client token create --identity NAMESPACE/SERVICE-ACCOUNT"
	noWaypoints  = "There is no ambient mode here: each machine has its Envoy, and gateways have theirs"
	pages        = "Pages are of the programs: see /debug of discovery and the dashboards in deploy/grafana"
	logging      = "Envoy's log levels are set on the machine: sudo mesh-agent envoy log-level upstream=debug"
	bootstrap    = "Envoy's bootstrap is shown on the machine: sudo mesh-agent envoy config bootstrap"
	installed    = "Programs are installed from packages, and set up by their flags: see mcp-server --help and mesh-agent --help"
	experimental = "What istioctl keeps there is among the commands: authz check, describe, proxy-status, authority, token"
)
