# Draws the sample portraits: a coloured gradient with a head and shoulders. Debian: python3-pil.
from PIL import Image, ImageDraw
import math
TONES = [((52, 92, 140), (236, 196, 160)), ((120, 60, 90), (140, 96, 66)), ((40, 110, 90), (250, 214, 186)),
         ((150, 110, 40), (90, 60, 44)), ((80, 80, 120), (222, 178, 140)), ((60, 60, 60), (190, 140, 104))]
for number, (coat, skin) in enumerate(TONES, 1):
    size = 120
    image = Image.new("RGB", (size, size))
    for y in range(size):
        for x in range(size):
            shade = 150 + 60 * math.sin((x + 17 * number) / 40) + 40 * (1 - y / size)
            image.putpixel((x, y), tuple(min(255, int((shade + c) / 2)) for c in (coat[2], coat[0], coat[1])))
    draw = ImageDraw.Draw(image)
    draw.ellipse((18, 80, 102, 170), fill=coat)
    draw.ellipse((38, 26, 82, 84), fill=skin)
    draw.chord((36, 20, 84, 74), 180, 360, fill=tuple(c // 3 for c in coat))
    image.save(f"portrait-{number}.jpg", quality=70)
