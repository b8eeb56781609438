"""Trainer.step on two devices: the store updates the weights, or every device does.

Left, update_on_kvstore=True, the default: both devices push their gradients to the store; the store
adds them, its optimizer updates the store's copy of the weights once, and both devices pull the
weights. Right, update_on_kvstore=False: both push their gradients, the store adds them, both pull
the sum, and every device updates its own weights. This is chapter 1's allreduce. Thin arrows carry
gradients, thick arrows carry weights.

The store keeps arrays and adds them. MXNet calls it a key-value store.
"""

import draw as d

figure = d.Figure(622, __doc__)

PANEL, DEVICE, GAP = 338, 164, 10
TOP, BOTTOM = 96, 524
GRADIENT, STORE, SUM = 146, 198, 250
PULLED, UPDATE, WEIGHTS = 348, 420, 490  # y positions in the devices
THICK = 3.5  # arrows that carry weights; those that carry gradients are as thin as in every figure


def update(x, y, k=None):
    figure.box(x - 66, y - 24, 132, 48, 'W ← W −', 'lr/n · (g_0 + g_1)', k=k)


def total(x, y, k=None):
    figure.rect(x - 42, y - 17, 84, 34, d.WHITE, d.LINE if k is None else d.SOLID[k], r=17, width=2)
    figure.label(x, y, 'g_0 + g_1', size=15)


def carries(x, y, verb, what):
    """Label an arrow: the verb on its left, the object on its right."""
    figure.small(x - 10, y, verb, anchor='end', bold=True)
    figure.small(x + 10, y, what, anchor='start')


def panel(x, letter, setting, who, what, store_bottom):
    """Draw the parts that both panels share, down to the sum; return the devices' centres."""
    figure.badge(x + 14, 37, letter)
    figure.text(x + 38, 42, setting, mono=True, bold=True)
    figure.text(x + 46 + 8.45 * len(setting), 42, who)
    figure.text(x, 70, what, size=d.SMALL, fill=d.MUTED)
    middle = x + PANEL / 2
    centres = (x + DEVICE / 2, x + PANEL - DEVICE / 2)
    for k in range(2):
        figure.device(x + k * (DEVICE + GAP), TOP, DEVICE, BOTTOM - TOP, k)
    figure.rect(x + 12, STORE, PANEL - 24, store_bottom - STORE, d.DATA, d.LINE, r=9)
    figure.label(middle, STORE + 17, 'the store', bold=True)
    for k in range(2):
        side = middle + (-42, 42)[k]
        figure.gradient(centres[k], GRADIENT, f'g_{k}', k)
        figure.arrow((centres[k], GRADIENT + 18), (centres[k], SUM), (side, SUM))
        carries(centres[k], GRADIENT + 35, 'push', 'gradient')
    total(middle, SUM)
    return centres


# --- left: the store does everything, once
x = d.MARGIN
middle = x + PANEL / 2
words = 'the store updates once, the weights come back'
centres = panel(x, 'A', 'update_on_kvstore=True', '(default)', words, 438)
figure.arrow((middle, SUM + 17), (middle, 300))
update(middle, 324)
figure.small(middle - 76, 324, "the store's", 'optimizer', anchor='end')
figure.small(middle + 76, 324, 'once', anchor='start', bold=True)
figure.arrow((middle, 348), (middle, 380), width=THICK)
figure.parameters(middle, 397, side=34)
for k in range(2):
    side = middle + (-17, 17)[k]
    figure.arrow((side, 397), (centres[k], 397), (centres[k], WEIGHTS - 17), width=THICK)
    carries(centres[k], 455, 'pull', 'weights')
    figure.parameters(centres[k], WEIGHTS, k=k, side=34)
figure.small(middle, 426, "the store's copy")

# --- right: the store only adds
x = d.RIGHT - PANEL
middle = x + PANEL / 2
store_bottom = 282
words = "chapter 1's allreduce, then each device updates"
centres = panel(x, 'B', 'update_on_kvstore=False', '(chapter 1)', words, store_bottom)
fork = store_bottom + 14
figure.line((middle, SUM + 17), (middle, fork))
for k in range(2):
    figure.arrow((middle, fork), (centres[k], fork), (centres[k], PULLED - 17))
    carries(centres[k], fork + 17, 'pull', 'their sum')
    total(centres[k], PULLED, k)
    figure.arrow((centres[k], PULLED + 17), (centres[k], UPDATE - 24))
    update(centres[k], UPDATE, k)
    figure.arrow((centres[k], UPDATE + 24), (centres[k], WEIGHTS - 17), width=THICK)
    figure.parameters(centres[k], WEIGHTS, k=k, side=34)

figure.divider(d.WIDTH / 2, 28, BOTTOM)

# --- the legend for the arrows
y = BOTTOM + 26
figure.arrow((d.MARGIN, y), (d.MARGIN + 44, y))
figure.label(d.MARGIN + 54, y, 'carries gradients', anchor='start')
figure.arrow((d.MARGIN + 216, y), (d.MARGIN + 260, y), width=THICK)
figure.label(d.MARGIN + 270, y, 'carries weights', anchor='start')
