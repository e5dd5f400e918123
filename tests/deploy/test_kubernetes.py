"""What is rendered of the manifests: that Kubernetes takes it, and keeps what it promises."""

import ipaddress
import shutil

import yaml

from manifests import KUBERNETES, OVERLAYS, containers, environment, key, pod, render
from support import Case


class Manifests(Case):
    def setUp(self):
        super().setUp()
        self.rendered = {overlay: render(KUBERNETES / "overlays" / overlay) for overlay in OVERLAYS}

    def find(self, overlay, kind, name):
        (found,) = (it for it in self.rendered[overlay] if key(it) == (kind, name))
        return found

    def container(self, overlay, kind, owner, name):
        (found,) = (it for it in containers(self.find(overlay, kind, owner)) if it["name"] == name)
        return found

    def policy_of(self, overlay, owner):
        """The policies that hold for the pods of a Job or StatefulSet."""
        labels = owner["spec"]["template"]["metadata"]["labels"].items()
        policies = [it["spec"] for it in self.rendered[overlay] if it["kind"] == "NetworkPolicy"]
        return [it for it in policies if it["podSelector"]["matchLabels"].items() <= labels]

    def test_kubernetes_takes_every_resource(self):
        for overlay, resources in self.rendered.items():
            file = self.directory / f"{overlay}.yaml"
            file.write_text(yaml.dump_all(resources))
            said = self.succeed("kubernetes-validate", "--strict", file)
            self.assertEqual(said.count("passed for resource"), len(resources), said)

    def test_kubectl_renders_the_same(self):
        """Where there is one that renders: from 1.21 on, which Debian 12 has not. Without it the others
        look at what is rendered here."""
        if shutil.which("kubectl") is None or "v1.20" in self.succeed("kubectl", "version", "--client"):
            return
        for overlay, resources in self.rendered.items():
            theirs = yaml.safe_load_all(self.succeed("kubectl", "kustomize", KUBERNETES / "overlays" / overlay))
            by_key = lambda found: {key(it): it for it in found}
            self.assertEqual(by_key(theirs), by_key(resources))

    def test_every_pod_is_restricted(self):
        """The level "restricted" of the Pod Security Standards, and no key to the cluster. The one exception
        is what makes the rules of a pod's network, which has a test of its own."""
        owners = [it for found in self.rendered.values() for it in found if pod(it)]
        self.assertEqual(len(owners), 6)
        for owner in owners:
            spec = pod(owner)
            self.assertIs(spec["automountServiceAccountToken"], False)
            self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
            self.assertEqual(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
            self.assertGreater(spec["terminationGracePeriodSeconds"] if "state" in str(spec) else 30, 25)
            for container in containers(owner):
                closed = container["securityContext"]
                self.assertIn("memory", container["resources"]["limits"])
                self.assertIn("cpu", container["resources"]["requests"])
                if container["name"] == "redirect":
                    continue
                self.assertNotEqual(closed.get("runAsUser"), 0)
                self.assertIs(closed.get("runAsNonRoot", True), True)
                self.assertIs(closed["allowPrivilegeEscalation"], False)
                self.assertIs(closed["readOnlyRootFilesystem"], True)
                self.assertEqual(closed["capabilities"], {"drop": ["ALL"]})

    def test_what_a_pod_mounts_is_there(self):
        made_by_hand = {"courtesy-ca", "courtesy-admin", "courtesy-trust", "courtesy-engine"}
        for overlay, found in self.rendered.items():
            maps = {it["metadata"]["name"] for it in found if it["kind"] == "ConfigMap"} | made_by_hand
            for owner in filter(pod, found):
                claims = {it["metadata"]["name"] for it in owner["spec"].get("volumeClaimTemplates", [])}
                volumes = {it["name"]: it for it in pod(owner)["volumes"]}
                for volume in volumes.values():
                    if "configMap" in volume:
                        self.assertIn(volume["configMap"]["name"], maps)
                    if "secret" in volume:
                        self.assertIn(volume["secret"]["secretName"], made_by_hand)
                for container in containers(owner):
                    mounted = {it["name"] for it in container["volumeMounts"]}
                    self.assertLessEqual(mounted, set(volumes) | claims, f"{overlay}: {container['name']}")

    def test_the_sidecar_is_a_native_one_that_is_ready_before_the_crawler_starts(self):
        init = pod(self.find("sidecar", "Job", "crawler"))["initContainers"]
        self.assertEqual([it["name"] for it in init], ["trust", "courtesy"])
        trust, proxy = init
        self.assertNotIn("restartPolicy", trust)
        self.assertEqual(trust["args"], ["env"])
        self.assertEqual(proxy["restartPolicy"], "Always")
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
            self.assertEqual(proxy[probe]["exec"]["command"][:2], ["/usr/bin/courtesy", "health"])
        self.assertIn("--live", proxy["livenessProbe"]["exec"]["command"])
        # A slow start or a slow moment is no reason to end it.
        patience = proxy["livenessProbe"]["periodSeconds"] * proxy["livenessProbe"]["failureThreshold"]
        self.assertGreaterEqual(patience, 60)

    def test_the_crawler_beside_it_trusts_its_ca_and_never_sees_the_key(self):
        crawler = self.container("sidecar", "Job", "crawler", "crawler")
        proxy = self.container("sidecar", "Job", "crawler", "courtesy")
        shared = {it["name"]: it["mountPath"] for it in proxy["volumeMounts"]}
        self.assertEqual([it["name"] for it in crawler["volumeMounts"]], ["trust"])
        (trust,) = crawler["volumeMounts"]
        self.assertTrue(trust["readOnly"])
        self.assertEqual((trust["mountPath"], shared["state"] + "/clients"), (shared["trust"], shared["trust"]))
        for overlay in OVERLAYS:
            given = environment(self.container(overlay, "Job", "crawler", "crawler"))
            for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"]:
                self.assertEqual(given[name], trust["mountPath"] + "/bundle.pem")
            if overlay == "transparent":
                self.assertEqual([name for name in given if "proxy" in name.lower()], [])
                continue
            host = "courtesy" if overlay == "shared" else "127.0.0.1"
            address = f"http://{host}:3128"
            for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"]:
                self.assertEqual(given[name], address)
            self.assertEqual((given["no_proxy"], given["NO_PROXY"]), ("", ""))

    def test_the_rules_of_a_pods_network_hold_before_the_crawler_starts(self):
        init = pod(self.find("transparent", "Job", "crawler"))["initContainers"]
        self.assertEqual([it["name"] for it in init], ["trust", "redirect", "courtesy"])
        redirect = init[1]
        self.assertNotIn("restartPolicy", redirect)
        self.assertEqual(redirect["volumeMounts"], [])
        closed = redirect["securityContext"]
        self.assertEqual(closed["capabilities"], {"drop": ["ALL"], "add": ["NET_ADMIN"]})
        self.assertIs(closed["allowPrivilegeEscalation"], False)
        self.assertIs(closed["readOnlyRootFilesystem"], True)
        self.assertEqual((closed["runAsUser"], closed["runAsNonRoot"]), (0, False))
        # But for the listener, the proxy is that of the sidecar.
        proxy, alone = init[2], self.container("sidecar", "Job", "crawler", "courtesy")
        self.assertEqual({name: it for name, it in proxy.items() if name != "env"}, alone)
        self.assertEqual(environment(proxy), {"COURTESY__LISTEN__TRANSPARENT": "127.0.0.1:3130"})

    def test_the_proxy_is_exempt_from_the_rules_and_the_crawler_is_not(self):
        spec = pod(self.find("transparent", "Job", "crawler"))
        redirect = self.container("transparent", "Job", "crawler", "redirect")
        crawler = self.container("transparent", "Job", "crawler", "crawler")
        self.assertIn(f"--uid={spec['securityContext']['runAsUser']}", redirect["args"])
        proxy = self.container("transparent", "Job", "crawler", "courtesy")
        self.assertNotIn("runAsUser", proxy["securityContext"])
        self.assertNotIn(crawler["securityContext"]["runAsUser"], [0, spec["securityContext"]["runAsUser"]])
        # What is not redirected is what pods may not reach anyway, unless the operator permits it.
        exempt = {it.removeprefix("--except=") for it in redirect["args"] if it.startswith("--except=")}
        policy = self.find("transparent", "NetworkPolicy", "courtesy-out")
        blocks = [to["ipBlock"] for rule in policy["spec"]["egress"] for to in rule["to"] if "ipBlock" in to]
        closed = {block for it in blocks for block in it.get("except", [])}
        self.assertEqual(exempt, closed | {"fc00::/7", "fe80::/10"})

    def test_a_client_of_the_shared_proxy_reaches_it_and_name_servers_only(self):
        crawler = self.find("shared", "Job", "crawler")
        (policy,) = self.policy_of("shared", crawler)
        self.assertIn("Egress", policy["policyTypes"])
        to = [(rule["to"], [it["port"] for it in rule["ports"]]) for rule in policy["egress"]]
        (proxy, proxy_ports), (names, name_ports) = to
        labels = self.find("shared", "StatefulSet", "courtesy")["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(proxy[0]["podSelector"]["matchLabels"].items(), labels.items())
        self.assertEqual((len(proxy), proxy_ports), (1, [3128]))
        self.assertEqual((names[0]["podSelector"]["matchLabels"], name_ports), ({"k8s-app": "kube-dns"}, [53, 53]))

    def test_the_shared_proxy_is_reached_by_its_clients_and_by_monitoring_only(self):
        policies = self.policy_of("shared", self.find("shared", "StatefulSet", "courtesy"))
        (inward,) = (it for it in policies if "Ingress" in it["policyTypes"])
        sources = [(rule["from"], [it["port"] for it in rule["ports"]]) for rule in inward["ingress"]]
        (clients, client_ports), (monitoring, metrics_ports) = sources
        self.assertEqual((clients, client_ports), ([{"podSelector": {"matchLabels": {"courtesy": "client"}}}], [3128]))
        self.assertEqual(([*monitoring[0]], metrics_ports), (["namespaceSelector"], [3129]))
        service = self.find("shared", "Service", "courtesy")
        proxy = self.container("shared", "StatefulSet", "courtesy", "courtesy")
        named = {it["name"]: it["containerPort"] for it in proxy["ports"]}
        for port in service["spec"]["ports"]:
            self.assertEqual(named[port["targetPort"]], port["port"])
        given = environment(proxy)
        self.assertEqual(given["COURTESY__LISTEN__ADMIN"], "0.0.0.0:3129")
        # Off loopback it is not told to everybody.
        self.assertTrue(given["COURTESY__ADMIN__TOKEN_FILE"].startswith(given["CREDENTIALS_DIRECTORY"] + "/"))

    def test_no_proxy_goes_to_the_cluster_or_the_clouds_secrets(self):
        closed = ["10.96.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "fd00::1", "fe80::1"]
        for overlay, kind, name in [
            ("sidecar", "Job", "crawler"),
            ("shared", "StatefulSet", "courtesy"),
            ("cluster", "Job", "crawler"),
            ("transparent", "Job", "crawler"),
        ]:
            policies = self.policy_of(overlay, self.find(overlay, kind, name))
            rules = [rule for it in policies if "Egress" in it["policyTypes"] for rule in it["egress"]]
            blocks = [to["ipBlock"] for rule in rules for to in rule["to"] if "ipBlock" in to]
            reached = lambda address: any(
                address in ipaddress.ip_network(block["cidr"])
                and not any(address in ipaddress.ip_network(it) for it in block.get("except", []))
                for block in blocks
            )
            self.assertEqual([it for it in closed if reached(ipaddress.ip_address(it))], [])
            self.assertTrue(reached(ipaddress.ip_address("93.184.215.14")))
            self.assertTrue(reached(ipaddress.ip_address("2606:2800:21f::1")))

    def test_the_crawlers_of_a_cluster_have_proxies_with_its_engine(self):
        proxy = self.container("cluster", "Job", "crawler", "courtesy")
        alone = self.container("sidecar", "Job", "crawler", "courtesy")
        given = environment(proxy)
        service = self.find("cluster", "Service", "engine")
        (port,) = service["spec"]["ports"]
        self.assertEqual(given["COURTESY__ENGINE__URL"], f"redis://{service['metadata']['name']}:{port['port']}")
        self.assertEqual(given["COURTESY__ENGINE__REQUIRED"], "true")
        mounted = {it["name"]: it["mountPath"] for it in proxy["volumeMounts"]}
        self.assertEqual(given["COURTESY__ENGINE__PASSWORD_FILE"], mounted["engine"] + "/password")
        # But for the engine it is the sidecar.
        of_engine = lambda it: it.get("name") == "engine"
        kept = {name: value for name, value in proxy.items() if name not in ["env", "volumeMounts"]}
        self.assertEqual(kept, {name: value for name, value in alone.items() if name != "volumeMounts"})
        others = [it for it in proxy["volumeMounts"] if not of_engine(it)]
        self.assertEqual(others, alone["volumeMounts"])

    def test_the_engine_forgets_nothing_and_is_one(self):
        engine = self.find("cluster", "StatefulSet", "engine")
        self.assertEqual(engine["spec"]["replicas"], 1)
        (container,) = containers(engine)
        words = container["args"]
        given = dict(zip(words[::2], words[1::2]))
        self.assertEqual((given["--appendonly"], given["--appendfsync"]), ("yes", "everysec"))
        self.assertEqual((given["--maxmemory"], given["--maxmemory-policy"]), ("1gb", "noeviction"))
        mounted = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
        self.assertEqual(given["--aclfile"], mounted["users"] + "/users.acl")
        self.assertEqual(given["--dir"], mounted["data"])

    def test_proxies_alone_reach_the_engine(self):
        engine = self.find("cluster", "StatefulSet", "engine")
        (policy,) = self.policy_of("cluster", engine)
        (rule,) = policy["ingress"]
        self.assertEqual(rule["from"], [{"podSelector": {"matchLabels": {"courtesy": "proxy"}}}])
        self.assertEqual([it["port"] for it in rule["ports"]], [6379])
        self.assertEqual((sorted(policy["policyTypes"]), policy["egress"]), (["Egress", "Ingress"], []))
        of_proxies = self.policy_of("cluster", self.find("cluster", "Job", "crawler"))
        to_pods = [rule for it in of_proxies for rule in it["egress"] if "podSelector" in rule["to"][0]]
        (way,) = [it for it in to_pods if "namespaceSelector" not in it["to"][0]]
        labels = engine["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(way["to"][0]["podSelector"]["matchLabels"].items(), labels.items())
        self.assertEqual([it["port"] for it in way["ports"]], [6379])

    def test_the_log_has_one_writer(self):
        self.assertEqual(self.find("shared", "StatefulSet", "courtesy")["spec"]["replicas"], 1)
