#!/usr/bin/env python3
"""The Kubernetes manifests: valid by the API's schema, and their commands, probes and ports are the binary's own."""
import json
import subprocess

from support.binary import ROOT, run
from support.case import EndToEndTest, main
from support.python_environment import make_environment

MANIFESTS = ROOT / "deploy/kubernetes"
LOAD = "import json, sys, yaml; print(json.dumps([d for f in sys.argv[1:] for d in yaml.safe_load_all(open(f))]))"


class KubernetesTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.bin = make_environment(cls.make_class_folder(), "kubernetes-validate==1.37.0")
        done = subprocess.run([cls.bin / "python", "-c", LOAD, *sorted(MANIFESTS.glob("*.yaml"))], capture_output=True,
                              text=True, check=True)
        cls.objects = {(each["kind"], each["metadata"]["name"]): each for each in json.loads(done.stdout)}
        cls.pod = cls.objects["StatefulSet", "sirenfeed"]["spec"]["template"]["spec"]

    def test_the_manifests_obey_the_api_s_schema(self):
        done = subprocess.run([self.bin / "kubernetes-validate", "--strict", MANIFESTS / "sirenfeed.yaml"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_container_s_command_and_settings_are_known_to_the_binary(self):
        settings = self.objects["ConfigMap", "sirenfeed"]["data"]
        for container in self.pod["containers"]:
            command, *arguments = container["args"]
            self.assertIn(command, ("serve", "train"))
            run("config", *arguments, env=settings)  # ends with 2 for an option or value that it does not know

    def test_probes_and_services_name_the_containers_ports(self):
        ports = {port["name"]: port["containerPort"] for container in self.pod["containers"]
                 for port in container["ports"]}
        for container in self.pod["containers"]:
            listens = int(container["args"][container["args"].index("--http") + 1].rsplit(":", 1)[1])
            self.assertEqual(listens, ports[container["name"]])
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe in container:
                    self.assertEqual(container[probe]["httpGet"]["port"], container["name"])
        service = self.objects["Service", "sirenfeed"]["spec"]["ports"]
        self.assertEqual({port["targetPort"]: port["port"] for port in service}, ports)
        monitor = self.objects["ServiceMonitor", "sirenfeed"]["spec"]["endpoints"]
        self.assertEqual({endpoint["port"] for endpoint in monitor}, {port["name"] for port in service})


if __name__ == "__main__":
    main()
