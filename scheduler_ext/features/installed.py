"""The features of this installation. Without a line here, and its folder, the others work as before."""

from scheduler_ext.features.autoscaling.feature import AUTOSCALING
from scheduler_ext.features.claims.feature import CLAIMS
from scheduler_ext.features.cost.feature import COST
from scheduler_ext.features.defrag.feature import DEFRAG
from scheduler_ext.features.gangs.feature import GANGS
from scheduler_ext.features.idle.feature import IDLE
from scheduler_ext.features.page.feature import PAGE
from scheduler_ext.sim.feature import SIM

FEATURES = (GANGS, IDLE, COST, DEFRAG, AUTOSCALING, CLAIMS, PAGE, SIM)
