"""The verdicts of kube-scheduler's own filters about one pod on one node, and its score of preferred node
affinity, for commands that answer without a kube-scheduler. No reply to kube-scheduler uses them."""

from scheduler_ext.core.intree.affinity import NodeSelectorTerm as NodeSelectorTerm
from scheduler_ext.core.intree.affinity import PreferredTerm as PreferredTerm
from scheduler_ext.core.intree.affinity import Requirement as Requirement
from scheduler_ext.core.intree.affinity import Taint as Taint
from scheduler_ext.core.intree.affinity import Toleration as Toleration
from scheduler_ext.core.intree.affinity import preference_of as preference_of
from scheduler_ext.core.intree.new_node import facts_as_new as facts_as_new
from scheduler_ext.core.intree.new_node import is_passing as is_passing
from scheduler_ext.core.intree.resource_fit import amount_text as amount_text
from scheduler_ext.core.intree.resource_fit import effective_requests as effective_requests
from scheduler_ext.core.intree.verdict import NO_NODES as NO_NODES
from scheduler_ext.core.intree.verdict import OTHER_NODES as OTHER_NODES
from scheduler_ext.core.intree.verdict import InTreeRejection as InTreeRejection
from scheduler_ext.core.intree.verdict import NodeFacts as NodeFacts
from scheduler_ext.core.intree.verdict import PodNeeds as PodNeeds
from scheduler_ext.core.intree.verdict import constraints_key as constraints_key
from scheduler_ext.core.intree.verdict import intree_rejection as intree_rejection
from scheduler_ext.core.intree.verdict import name_rejection as name_rejection
from scheduler_ext.core.intree.verdict import needs_key as needs_key
